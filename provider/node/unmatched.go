package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	"plinth.dev/plinth/inventory/source"
)

// unmatchedEvery is how often Nodes without a machine and machines without a Node
// are looked for. A rack that joins is a handful of writes, not one a machine.
const unmatchedEvery = 5 * time.Second

// unmatched reports Nodes without a machine and machines without a Node.
type unmatched struct {
	controller *Controller
	log        *slog.Logger
	nodes      prometheus.Gauge
	machines   prometheus.Gauge
	reported   map[string]string
	lacking    []string // machines without a Node, as of the last time
}

// reasonMachineWithoutNode is the reason of the Event on the inventory's status that
// names machines which have no Node and should.
const reasonMachineWithoutNode = "MachineWithoutNode"

// machinesPerEvent is how many machines an Event names.
const machinesPerEvent = 10

func newUnmatched(c *Controller) *unmatched {
	return &unmatched{
		controller: c, log: c.options.Log.With("controller", "plinth-orphan-controller"),
		nodes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_nodes_without_machine", Help: "Nodes of which the inventory knows no machine, or more than one."}),
		machines: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_machines_without_node", Help: "Machines that are active or in maintenance and have no Node."}),
	}
}

// StartUnmatched starts the report of Nodes and machines that are unmatched, which runs until
// ctx ends.
func (c *Controller) StartUnmatched(ctx context.Context) error {
	u := newUnmatched(c)
	legacyregistry.RawMustRegister(u.nodes, u.machines)
	synced := c.cluster.Nodes.Informer().HasSynced
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			wait.UntilWithContext(ctx, u.report, unmatchedEvery)
		}
	}()
	return nil
}

// report reports the unmatched Nodes and machines, if they changed since the last report.
func (u *unmatched) report(ctx context.Context) {
	nodes, machines, ok := u.controller.options.Index.Unmatched()
	if !ok {
		return
	}
	u.nodes.Set(float64(len(nodes)))
	u.machines.Set(float64(len(machines)))
	data := map[string]string{source.KeyNodesWithoutMachine: strings.Join(nodes, "\n"), source.KeyMachinesWithoutNode: strings.Join(machines, "\n")}
	if maps.Equal(data, u.reported) {
		return
	}
	if err := source.WriteStatus(ctx, u.controller.cluster.Client, u.controller.options.Namespace, data); err != nil {
		u.log.Error("cannot report nodes without a machine", "err", err)
		return
	}
	u.reported = data
	u.reportLacking(machines)
	u.log.Info("reported unmatched nodes and machines", "nodes", len(nodes), "machines", len(machines))
}

// reportLacking records an Event for machines that lack a Node and did not before.
// That others have one by now is no news.
func (u *unmatched) reportLacking(machines []string) {
	fresh := slices.DeleteFunc(slices.Clone(machines), func(m string) bool {
		_, before := slices.BinarySearch(u.lacking, m)
		return before
	})
	u.lacking = machines
	if len(fresh) == 0 {
		return
	}
	names := strings.Join(fresh[:min(len(fresh), machinesPerEvent)], ", ")
	if more := len(fresh) - machinesPerEvent; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	status := &v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: u.controller.options.Namespace, Name: source.StatusName}
	u.controller.cluster.Recorder.Event(status, v1.EventTypeWarning, reasonMachineWithoutNode, "no Node has joined as "+names)
}
