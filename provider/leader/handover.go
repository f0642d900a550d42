package leader

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// HandOver keeps this process from writing any more, and gives its lease up once the requests in flight are
// answered. identity is the name of the process in the lease; empty: it never led. The
// client of the lock must write past the fence. Where it fails, the lease is left to expire.
func HandOver(ctx context.Context, fence *SelfFence, lock resourcelock.Interface, identity func() string) error {
	if err := fence.Drain(ctx); err != nil {
		return fmt.Errorf("lease %s is not given up, for writes are still in flight: %w", lock.Describe(), err)
	}
	held, _, err := lock.Get(ctx)
	if err != nil {
		return fmt.Errorf("lease %s is not given up: %w", lock.Describe(), err)
	}
	if held.HolderIdentity == "" || held.HolderIdentity != identity() {
		return nil
	}
	now := metav1.Now()
	free := resourcelock.LeaderElectionRecord{LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
	if err := lock.Update(ctx, free); err != nil {
		return fmt.Errorf("lease %s is not given up: %w", lock.Describe(), err)
	}
	return nil
}

// Identity is the identity of this process as the holder of its lease. The framework makes it up, and
// tells it only by the Event that says who leads (client-go v0.37.2).
type Identity struct {
	record.EventRecorder
	name atomic.Value
}

// Eventf records an Event, and reads the identity from that which says that this process leads.
func (i *Identity) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	if name, leads := strings.CutSuffix(fmt.Sprintf(format, args...), " became leader"); leads && reason == "LeaderElection" {
		i.name.Store(name)
	}
	i.EventRecorder.Eventf(obj, kind, reason, format, args...)
}

// Name returns the identity; empty: this process never led.
func (i *Identity) Name() string {
	name, _ := i.name.Load().(string)
	return name
}
