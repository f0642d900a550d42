package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// orphansEvery is how often Nodes without a machine and machines without a Node
// are looked for. A rack that joins is a handful of writes, not one a machine.
const orphansEvery = 5 * time.Second

// orphans tells what has no counterpart.
type orphans struct {
	cloud    *Cloud
	nodes    prometheus.Gauge
	machines prometheus.Gauge
	told     map[string]string
	lacking  []string // machines without a Node, as of the last look
}

// reasonMachineWithoutNode is that of the Event on the inventory's status which
// names machines that have no Node and should.
const reasonMachineWithoutNode = "MachineWithoutNode"

// machinesPerEvent is how many machines an Event names.
const machinesPerEvent = 10

func newOrphans(c *Cloud) *orphans {
	return &orphans{
		cloud: c,
		nodes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_nodes_without_machine", Help: "Nodes of which the inventory knows no machine, or more than one."}),
		machines: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_machines_without_node", Help: "Machines that are active or in maintenance and have no Node."}),
	}
}

// startOrphans starts the report of Nodes and machines without a counterpart.
func startOrphans(ctx context.Context, c *Cloud, _ start) error {
	o := newOrphans(c)
	register(o.nodes, o.machines)
	synced := c.informers.Core().V1().Nodes().Informer().HasSynced
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			wait.UntilWithContext(ctx, o.look, orphansEvery)
		}
	}()
	return nil
}

// look tells what changed since the last time.
func (o *orphans) look(ctx context.Context) {
	nodes, machines, ok := o.cloud.roster.orphans()
	if !ok {
		return
	}
	o.nodes.Set(float64(len(nodes)))
	o.machines.Set(float64(len(machines)))
	data := map[string]string{source.KeyNodesWithoutMachine: strings.Join(nodes, "\n"), source.KeyMachinesWithoutNode: strings.Join(machines, "\n")}
	if maps.Equal(data, o.told) {
		return
	}
	if err := source.WriteStatus(ctx, o.cloud.client, o.cloud.options.Namespace, data); err != nil {
		o.cloud.log.Error("cannot report nodes without a machine", "err", err)
		return
	}
	o.told = data
	o.tellLacking(machines)
	o.cloud.log.Info("what has no counterpart", "nodesWithoutMachine", len(nodes), "machinesWithoutNode", len(machines))
}

// tellLacking records an Event for machines that lack a Node and did not before.
// That others have one by now is no news.
func (o *orphans) tellLacking(machines []string) {
	fresh := slices.DeleteFunc(slices.Clone(machines), func(m string) bool {
		_, before := slices.BinarySearch(o.lacking, m)
		return before
	})
	o.lacking = machines
	if len(fresh) == 0 {
		return
	}
	names := strings.Join(fresh[:min(len(fresh), machinesPerEvent)], ", ")
	if more := len(fresh) - machinesPerEvent; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	status := &v1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.cloud.options.Namespace, Name: source.StatusName}
	o.cloud.recorder.Event(status, v1.EventTypeWarning, reasonMachineWithoutNode, "no Node has joined as "+names)
}

// orphans returns the Nodes that are no machine and the machines that have no
// Node and should, both sorted; ok is false while there is no inventory.
func (r *roster) orphans() (nodes, machines []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inventory == nil {
		return nil, nil, false
	}
	for name, e := range r.nodes {
		if e.machine == "" {
			nodes = append(nodes, name)
		}
	}
	for _, rack := range r.inventory.Racks {
		for _, m := range rack.Machines {
			awaited := m.State == inventory.StateActive || m.State == inventory.StateMaintenance
			if awaited && !m.Held && len(r.machines[m.Name]) == 0 {
				machines = append(machines, m.Name)
			}
		}
	}
	slices.Sort(nodes)
	slices.Sort(machines)
	return nodes, machines, true
}
