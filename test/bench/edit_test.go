package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const (
	machines = 1000
	edited   = 500 // the machine whose label is edited
	label    = "example.com/edit"
)

// BenchmarkEditOfOneMachine measures how long it takes from the write of an
// inventory of a thousand machines, in which one label of one machine is new,
// until its Node bears the label ("ms/edit", the median; the goal is less than
// 2,000), and how much the controller manager writes for it ("writes/edit",
// without Events). A write of anything but the machine's rack, the inventory's
// common part and status, and that one Node fails the benchmark.
func BenchmarkEditOfOneMachine(b *testing.B) {
	c := atRest(b, apiserver.ManyMachines(machines))
	before := len(c.Writes())
	var took []time.Duration
	for b.Loop() {
		took = append(took, edit(b, c, strconv.Itoa(len(took)+1)))
		b.StopTimer()
		c.AwaitStatus("generation", strconv.Itoa(len(took)+1)) // the next edit is to be another burst
		b.StartTimer()
	}
	writes := slices.DeleteFunc(c.Quiet(apiserver.ControllerName, before), func(w apiserver.Write) bool { return w.Resource == "events" })
	checkWrites(b, writes)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/edit")
	b.ReportMetric(float64(len(writes))/float64(len(took)), "writes/edit")
}

// atRest starts a cluster with an inventory of ManyMachines, whose Nodes are all
// initialised by a controller manager that has nothing left to do.
func atRest(b *testing.B, inventory string) *apiserver.Controller {
	b.Helper()
	c := apiserver.NewController(b, apiserver.Options{Fresh: true})
	c.EditInventory(inventory, nil)
	c.Start()
	c.AwaitStatus("generation", "1")
	c.CreateNodes(machines)
	c.AwaitInitialised(5*time.Minute, machines)
	c.AwaitStatus("machinesWithoutNode", "")
	c.Quiet(apiserver.ControllerName, 0)
	return c
}

// edit gives one machine's label another value and returns how long it took from
// the write until its Node had it.
func edit(b *testing.B, c *apiserver.Controller, value string) time.Duration {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	name := apiserver.MachineName(edited)
	node, err := c.Client.CoreV1().Nodes().Watch(ctx, metav1.SingleObject(metav1.ObjectMeta{Name: name}))
	if err != nil {
		b.Fatal(err)
	}
	defer node.Stop()
	begun := time.Now()
	c.EditInventory(labelled(name, value), nil)
	for event := range node.ResultChan() {
		if n, ok := event.Object.(*v1.Node); ok && n.Labels[label] == value {
			return time.Since(begun)
		}
	}
	b.Fatal(errors.Join(fmt.Errorf("node %s never had the label %s=%s", name, label, value), ctx.Err()))
	return 0
}

// labelled is the inventory with a label on one machine.
func labelled(machine, value string) string {
	entry := "{name: " + machine + ","
	return strings.Replace(apiserver.ManyMachines(machines), entry, fmt.Sprintf("%s labels: {%s: %q},", entry, label, value), 1)
}

// checkWrites fails the benchmark for each write that an edit does not call for.
func checkWrites(b *testing.B, writes []apiserver.Write) {
	b.Helper()
	expected := []string{
		"nodes " + apiserver.MachineName(edited),
		"configmaps plinth-accepted-" + apiserver.RackOf(edited), // for version 0.1
		"configmaps plinth-accepted.previous",
		"configmaps plinth-accepted",
		"configmaps plinth-inventory-status",
	}
	for _, w := range writes {
		slice := w.Resource == "configmaps" && strings.HasPrefix(w.Name, "plinth-accepted."+apiserver.RackOf(edited)+".")
		if !slice && !slices.Contains(expected, w.Resource+" "+w.Name) {
			b.Errorf("an edit of one label wrote %+v", w)
		}
	}
}
