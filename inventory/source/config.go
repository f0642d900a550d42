package source

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
)

// Recorder records Events on the ConfigMaps that people edit.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Config holds the settings and dependencies of a [Reconciler].
type Config struct {
	Client    kubernetes.Interface
	Namespace string
	Source    Source
	Recorder  Recorder
	Log       *slog.Logger
	Metrics   *Metrics
	// Enforce takes an inventory that is in force from now on: that which was
	// accepted earlier, then each that is taken up.
	Enforce func(*inventory.Inventory)
	// ClusterLosses returns the losses of the cluster from before to after: VIPs in use, Nodes' machines,
	// ways between pods, addresses; an error where they are not known now. nil: they are not asked for.
	ClusterLosses func(ctx context.Context, before, after *inventory.Inventory) (edit.Losses, error)
	// Agents returns the state of the agents, by the machine's name, of machines whose kubelet is
	// Ready. nil: new terms of sessions are not tried.
	Agents func(context.Context) (map[string]edit.Agent, error)
	// Lease is the name of the lease that the reconciler's process leads by; empty: it was not elected.
	Lease string
	// Program is the name of the process's program, where it is called otherwise than Plinth's; see [Program].
	Program string
	// Overtaken ends a process whose installation runs on another lease by now; nil: none is called.
	Overtaken func()
	Now       func() time.Time // nil: [time.Now]
}

func (c *Config) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// store returns the store of the accepted inventory.
func (c *Config) store() acceptedStore {
	return acceptedStore{c.Client, c.Namespace, c.Lease, c.Program}
}
