package vip

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// How often the informers, and how often the cluster, is asked whether resource
// versions went back. A backup is older than the writes of so short a time.
const (
	lookEvery = time.Second
	askEvery  = 10 * time.Second
)

// watchVersions has the process begin anew when etcd was restored from a backup,
// which the resource versions of Nodes show also where there are no Services: every
// watch then waits for a version that is yet to come, and every cache, that of the
// inventory among them, shows a cluster that is no more. It is told what an informer
// has seen.
func (b *Controller) WatchVersions(ctx context.Context, seen func() string) {
	var v versions
	asked := time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		v.see(seen())
		if time.Since(asked) >= askEvery {
			asked = time.Now()
			now, err := currentVersion(ctx, b.cluster.Client)
			if err != nil {
				b.log.Warn("cannot ask for the resource version of the cluster", "err", err)
				return
			}
			v.hear(now)
		}
		if v.back {
			b.log.Error("resource versions went back", "before", v.before, "now", v.now)
			b.restored(ctx)
		}
	}, lookEvery)
}

// versions are the resource versions of one cluster, as an informer has them and
// as the cluster says that they are, which may be later.
type versions struct {
	seen, heard string // the newest of each
	back        bool
	before, now string // how they went back
}

// see takes that of an informer: it may lag, but never goes back of itself.
func (v *versions) see(now string) {
	v.compare(v.seen, now)
	v.seen = later(v.seen, now)
}

// hear takes that of the cluster.
func (v *versions) hear(now string) {
	v.compare(later(v.seen, v.heard), now)
	v.heard = later(v.heard, now)
}

func (v *versions) compare(before, now string) {
	if newer(before, now) {
		v.back, v.before, v.now = true, before, now
	}
}

// currentVersion returns the cluster's resource version at this moment.
func currentVersion(ctx context.Context, client kubernetes.Interface) (string, error) {
	one, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("listing one node: %w", err)
	}
	return one.ResourceVersion, nil
}

// later returns the newer of two resource versions; the first where they cannot
// be compared.
func later(a, b string) string {
	if a == "" || newer(b, a) {
		return b
	}
	return a
}

// newer reports whether resource version a comes after b (KEP-5504). Of two that
// cannot be compared neither does.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
