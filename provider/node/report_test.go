package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/nodeindex"
)

// loaded is an inventory of one rack with these machines.
func loaded(t *testing.T, machines string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(
		"apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
			"  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}\n  racks: [{name: r01, machines: [" + machines + "]}]")})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestWhatIsWrongWithANode(t *testing.T) {
	const uuid, another = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
	inv := loaded(t, `{name: w1, addresses: [10.10.1.11, "fd00::11"], externalAddresses: [192.0.2.1], podCIDRs: [10.244.1.0/24], match: {systemUUID: `+uuid+`}},
		{name: later, addresses: [10.10.1.12], state: planned}, {name: former, addresses: [10.10.1.13], state: retired}, {name: "off", addresses: [10.10.1.14], state: "off"}`)
	nodeIP := func(given string) func(*v1.Node) {
		return func(n *v1.Node) { n.Annotations = map[string]string{api.AnnotationAlphaProvidedIPAddr: given} }
	}
	ready := func(n *v1.Node) {
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	}
	for _, c := range []struct {
		what, machine string
		change        func(*v1.Node)
		want          string // the reasons
		says          string
	}{
		{what: "nothing", machine: "w1"},
		{what: "all that it should have", machine: "w1", change: func(n *v1.Node) { nodeIP("10.10.1.11,fd00::11")(n); n.Spec.PodCIDRs = []string{"10.244.1.0/24"} }},
		{what: "an external address", machine: "w1", change: nodeIP("192.0.2.1")},
		{what: "an address mapped into IPv6", machine: "w1", change: nodeIP("::ffff:10.10.1.11")},
		{what: "an address of nobody", machine: "w1", change: nodeIP("10.10.1.11, 10.10.1.99"), want: "NodeIPUnknown", says: "the addresses 10.10.1.11,fd00::11,192.0.2.1"},
		{what: "no address", machine: "w1", change: nodeIP("junk"), want: "NodeIPUnknown"},
		{what: "another pod CIDR", machine: "w1", change: func(n *v1.Node) { n.Spec.PodCIDRs = []string{"10.244.9.0/24"} }, want: "PodCIDRDiffer", says: "[10.244.1.0/24]"},
		{what: "another board", machine: "w1", change: func(n *v1.Node) { n.Status.NodeInfo.SystemUUID = another }, want: "SystemUUIDDiffers", says: "node w1: it reports"},
		{what: "a machine that is planned", machine: "later", want: "Unexpected", says: "planned"},
		{what: "a machine that is retired, and ready", machine: "former", change: ready, want: "Unexpected", says: "retired"},
		{what: "a machine that is off, and ready", machine: "off", change: ready, want: "StillOff"},
	} {
		m, _ := inv.Machine(c.machine)
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.machine}}
		if c.change != nil {
			c.change(n)
		}
		found := faults(nodeindex.State(n), m, nil)
		if got := strings.Join(slices.Sorted(maps.Keys(found)), " "); got != c.want || !strings.Contains(found[c.want], c.says) {
			t.Errorf("%s: %q, want %s: ...%s", c.what, found, c.want, c.says)
		}
	}
	for want, err := range map[string]error{
		"NoMachine": fmt.Errorf("node x: %w", inventory.ErrNoMachine), "MachineReplaced": fmt.Errorf("node x: %w", &inventory.ReplacedError{}),
		"Ambiguous": errors.New("two claim it"),
	} {
		if got := faults(inventory.NodeState{}, inventory.Machine{}, err); len(got) != 1 || got[want] != err.Error() {
			t.Errorf("%v: %q, want %s", err, got, want)
		}
	}
	if got := faults(inventory.NodeState{}, inventory.Machine{}, nodeindex.ErrNoInventory); len(got) > 0 {
		t.Errorf("without an inventory: %q", got)
	}
}

// desk is a Controller with an informer that the test fills, and what it reported.
type desk struct {
	*Controller
	t       *testing.T
	inForce *source.InForce
	events  *record.FakeRecorder
}

func newDesk(t *testing.T, machines string) *desk {
	d := &desk{t: t, inForce: &source.InForce{}, events: record.NewFakeRecorder(100)}
	index := nodeindex.New()
	d.Controller = New(Options{InForce: d.inForce, Index: index, Log: slog.Default()})
	d.inForce.Follow(index.Reindex)
	d.inForce.Set(loaded(t, machines))
	client := fake.NewClientset()
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &v1.Node{}, nil })
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
	if err := index.Use(nodes.Informer()); err != nil {
		t.Fatal(err)
	}
	d.Use(Cluster{Client: client, Nodes: nodes, Recorder: d.events, Reports: event.NewReports(d.events)})
	return d
}

// sees has the informer show a Node, and the Controller sync it.
func (d *desk) sees(n *v1.Node) {
	d.t.Helper()
	if err := d.cluster.Nodes.Informer().GetIndexer().Update(n); err != nil {
		d.t.Fatal(err)
	}
	if err := d.sync(d.t.Context(), n.Name); err != nil {
		d.t.Fatal(err)
	}
}

// reported checks which Event came since the last time; empty: none; *: any.
func (d *desk) reported(want string) {
	d.t.Helper()
	got := ""
	for len(d.events.Events) > 0 {
		got += <-d.events.Events + "\n"
	}
	if want != "*" && (want == "" && got != "" || !strings.Contains(got, want)) {
		d.t.Errorf("reported: %q, want %q", got, want)
	}
}

// TestWhatWasWrongIsReportedAgain: a Node's machine is retired, or gone, while something is
// wrong with it, and comes back with the same fault.
func TestWhatWasWrongIsReportedAgain(t *testing.T) {
	const off, elsewhere = `{name: w1, addresses: [10.10.1.11], state: "off"}`, `{name: w2, addresses: [10.10.1.12]}`
	for name, meanwhile := range map[string]string{"retired": `{name: w1, addresses: [10.10.1.11], state: retired}`, "gone": elsewhere} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, elsewhere)
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "1"}}
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
			d.inForce.Set(loaded(t, off))
			d.sees(n)
			d.reported("StillOff")
			d.sees(n)
			d.reported("")
			d.inForce.Set(loaded(t, meanwhile))
			d.sees(n)
			d.inForce.Set(loaded(t, off))
			d.sees(n)
			d.reported("StillOff")
		})
	}
}

// TestNodesThatAreGoneLeaveNoReports: Nodes come and go, and each is a stranger.
func TestNodesThatAreGoneLeaveNoReports(t *testing.T) {
	d := newDesk(t, `{name: w1, addresses: [10.10.1.11]}`)
	stranger := func(i int) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger", UID: types.UID(fmt.Sprint(i))}}
	}
	for i, goes := range []func(n, next *v1.Node){
		func(n, _ *v1.Node) { d.handler().OnDelete(n) },
		func(n, _ *v1.Node) { d.handler().OnDelete(cache.DeletedFinalStateUnknown{Key: n.Name, Obj: n}) },
		func(n, next *v1.Node) { d.handler().OnUpdate(n, next) }, // the informer missed that it went
		func(n, next *v1.Node) {
			d.handler().OnUpdate(n, next)
			d.sees(next)
			d.Report(n, inventory.Machine{}, inventory.ErrNoMachine) // by whoever has it still in hand
			d.handler().OnDelete(next)
		},
	} {
		n := stranger(2 * i)
		d.sees(n)
		d.reported("NoMachine")
		if open := d.cluster.Reports.Open(); open != 1 {
			t.Errorf("%d reports of the Node that is there", open)
		}
		goes(n, stranger(2*i+1))
		if open := d.cluster.Reports.Open(); open > 0 {
			t.Errorf("case %d: %d reports of Nodes that are gone are remembered", i, open)
		}
		d.reported("*")
	}
}

// TestAMachineOutOfServiceIsNotedOnItsNode with the inventory's reason, once.
func TestAMachineOutOfServiceIsNotedOnItsNode(t *testing.T) {
	machine := func(more string) string { return "{name: w1, addresses: [10.10.1.11]" + more + "}" }
	d := newDesk(t, machine(""))
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "1"}}
	for _, step := range []struct{ inventory, want string }{
		{machine(""), ""},
		{machine(", state: maintenance, reason: PSU swap"), "Normal MachineInMaintenance machine w1 is in maintenance: PSU swap"},
		{machine(", state: maintenance, reason: PSU swap"), ""},
		{machine(", state: maintenance, reason: the second PSU"), "Normal MachineInMaintenance machine w1 is in maintenance: the second PSU"},
		{machine(`, state: "off"`), "Normal MachineOff machine w1 is off\n"},
		{machine(""), "Normal MachineInService machine w1 is in service again"},
		{machine(""), ""},
		{machine(", state: maintenance"), "Normal MachineInMaintenance machine w1 is in maintenance\n"},
	} {
		d.inForce.Set(loaded(t, step.inventory))
		d.sees(n)
		d.reported(step.want)
	}
	d.handler().OnDelete(n)
	if open := d.cluster.Reports.Open(); open > 0 {
		t.Errorf("%d notes of a Node that is gone are remembered", open)
	}
}

// A pool has addresses of a Node that joined after it was made, be it a machine or not: the Node is told so once, until it or the pool changes.
func TestANodeIsToldThatAPoolHasItsAddresses(t *testing.T) {
	pool := func(addresses string) string {
		return "{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [192.0.2.0/24" + addresses
	}
	for _, name := range []string{"w1", "stranger"} {
		d := newDesk(t, pool(""))
		node := func(cidr, address string) *v1.Node {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}, Spec: v1.NodeSpec{PodCIDRs: []string{cidr}}}
			n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
			return n
		}
		for i, step := range []struct{ pool, cidr, address, want string }{
			{"", "10.244.1.0/24", "10.10.1.11", ""},
			{"", "192.0.2.0/25", "192.0.2.200", "pool public has 192.0.2.0/25 of the pods of node " + name + ", pool public has 192.0.2.200/32 of node " + name + ": no VIP is given from there"},
			{"", "192.0.2.0/25", "192.0.2.200", ""},
			{"], exclude: [192.0.2.0/25", "192.0.2.0/25", "192.0.2.200", "Warning PoolTakesAddress pool public has 192.0.2.200/32 of node " + name + ": no VIP"},
			{"], exclude: [192.0.2.0/25, 192.0.2.200", "192.0.2.0/25", "192.0.2.200", ""},
			{"", "10.244.1.0/24", "192.0.2.9", "pool public has 192.0.2.9/32"},
		} {
			d.inForce.Set(loaded(t, pool(step.pool)))
			d.sees(node(step.cidr, step.address))
			got := ""
			for len(d.events.Events) > 0 {
				if e := <-d.events.Events; strings.Contains(e, "PoolTakesAddress") {
					got += e
				}
			}
			if (step.want == "") != (got == "") || !strings.Contains(got, step.want) {
				t.Errorf("%s, %d: told %q, want %q", name, i, got, step.want)
			}
		}
	}
}

// The addresses of a Node are no part of what the inventory wants of it, and count all the same.
func TestANodeIsLookedAtAgainWhenItsAddressesChange(t *testing.T) {
	was, is := &v1.Node{}, &v1.Node{}
	is.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.9"}}
	if changed(was, was.DeepCopy()) || !changed(was, is) {
		t.Error("it is not")
	}
}
