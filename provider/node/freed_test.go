package node

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/nodeindex"
)

// TestWhatADeletedNodeHadIsGivenAtOnce: the controller is told of a deletion once, and must find
// then that the pod CIDR is free, however the handlers of an informer are scheduled.
func TestWhatADeletedNodeHadIsGivenAtOnce(t *testing.T) {
	const rounds = 40
	for i := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := givenWhenDeleted(ctx, t); err != nil {
			t.Fatalf("round %d of %d: %v", i+1, rounds, err)
		}
		cancel()
	}
}

func givenWhenDeleted(ctx context.Context, t *testing.T) error {
	named := func(name string, cidrs ...string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}, Spec: v1.NodeSpec{PodCIDRs: cidrs}}
	}
	client := fake.NewClientset(named("before", "10.244.7.0/24"), named("w1"))
	factory := informers.NewSharedInformerFactory(client, 0)
	inForce, index, recorder := &source.InForce{}, nodeindex.New(), record.NewFakeRecorder(1000)
	c := New(Options{InForce: inForce, Index: index, Log: slog.Default()})
	inForce.Follow(index.Reindex)
	inForce.Set(loaded(t, `{name: w1, addresses: [10.10.1.11], podCIDRs: [10.244.7.0/24]}`))
	if err := index.Use(factory.Core().V1().Nodes().Informer()); err != nil {
		return err
	}
	c.Use(Cluster{Client: client, Nodes: factory.Core().V1().Nodes(), Recorder: recorder, Reports: event.NewReports(recorder)})
	if err := c.Start(ctx, 1); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	select {
	case <-recorder.Events: // the pod CIDR is in use
	case <-ctx.Done():
		return fmt.Errorf("nothing is said of a pod CIDR that another Node has: %w", ctx.Err())
	}
	if err := client.CoreV1().Nodes().Delete(ctx, "before", metav1.DeleteOptions{}); err != nil {
		return err
	}
	var last string
	err := wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(ctx context.Context) (bool, error) {
		n, err := client.CoreV1().Nodes().Get(ctx, "w1", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = fmt.Sprint(n.Spec.PodCIDRs)
		return len(n.Spec.PodCIDRs) > 0, nil
	})
	if err != nil {
		return fmt.Errorf("the pod CIDRs of w1 are %s: %w", last, err)
	}
	return nil
}
