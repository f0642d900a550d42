package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/wait"
)

// withPools is an inventory of the machine w1 with these pools, of a cluster whose CNI routes pods.
func withPools(t *testing.T, pools string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(
		"apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
			"  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n  pools: [" + pools + "]\n  racks: [{name: r01, machines: [{name: w1, addresses: [10.10.1.11]}]}]")})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

// nodeWith is a Node with a pod CIDR and an address, as a kubelet and the controller manager of Kubernetes make it.
func nodeWith(name, cidr, address string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1.NodeSpec{PodCIDRs: []string{cidr}}}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
	return n
}

// labelling is a Controller at work, with a client that keeps what it writes.
type labelling struct {
	t       *testing.T
	client  *fake.Clientset
	inForce *source.InForce
}

func newLabelling(t *testing.T, inv *inventory.Inventory, nodes ...*v1.Node) *labelling {
	l := &labelling{t: t, client: fake.NewClientset(), inForce: &source.InForce{}}
	for _, n := range nodes {
		l.must(l.client.Tracker().Add(n))
	}
	index, events := nodeindex.New(), record.NewFakeRecorder(1000)
	c := New(Options{InForce: l.inForce, Index: index, Log: slog.New(slog.DiscardHandler)})
	l.inForce.Follow(index.Reindex)
	l.inForce.Set(inv)
	factory := informers.NewSharedInformerFactory(l.client, 0)
	l.must(index.Use(factory.Core().V1().Nodes().Informer()))
	c.Use(Cluster{Client: l.client, Nodes: factory.Core().V1().Nodes(), Recorder: events, Reports: event.NewReports(events)})
	l.must(c.Start(t.Context(), 2))
	factory.Start(t.Context().Done())
	return l
}

func (l *labelling) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// labels waits until each Node has the label with this value; "-": it has none.
func (l *labelling) labels(what string, want ...string) {
	l.t.Helper()
	wait.True(l.t, 20*time.Second, 5*time.Millisecond, what, func() (bool, string) {
		all, err := l.client.CoreV1().Nodes().List(l.t.Context(), metav1.ListOptions{})
		l.must(err)
		var got []string
		for _, n := range all.Items {
			value, there := n.Labels[lb.InPoolLabel]
			if !there {
				value = "-"
			}
			got = append(got, n.Name+" "+value)
		}
		slices.Sort(got)
		return slices.Equal(got, want), fmt.Sprintf("%q, want %q", got, want)
	})
}

// writes are how many writes of the label there were, of each Node. One that says what the one before said is of a Node as it was
// before that: an API server refuses it for its resource version, which the fake one does not look at.
func (l *labelling) writes() map[string]int {
	n, last := map[string]int{}, map[string]string{}
	for _, a := range l.client.Actions() {
		p, ok := a.(clienttesting.PatchAction)
		if ok && p.GetPatchType() == types.MergePatchType && string(p.GetPatch()) != last[p.GetName()] {
			n[p.GetName()]++
			last[p.GetName()] = string(p.GetPatch())
		}
	}
	return n
}

func TestANodeBearsTheNameOfThePoolThatHasAddressesOfIt(t *testing.T) {
	uninitialized := []v1.Taint{{Key: api.TaintExternalCloudProvider, Effect: v1.TaintEffectNoSchedule}} // nobody initialises what is no machine
	waiting, later := nodeWith("waiting", "192.0.2.64/26", "10.10.1.13"), nodeWith("later", "192.0.2.128/26", "10.10.1.15")
	waiting.Spec.Taints, later.Spec.Taints = uninitialized, uninitialized
	marked := nodeWith("marked", "10.9.3.0/24", "10.10.1.14")
	marked.Labels = map[string]string{lb.InPoolLabel: "theirs"} // its kubelet may
	l := newLabelling(t, withPools(t, "{name: public, addresses: [192.0.2.0/24]}"),
		nodeWith("w1", "192.0.2.0/26", "10.10.1.11"), nodeWith("stranger", "10.9.1.0/24", "192.0.2.200"), nodeWith("outside", "10.9.2.0/24", "10.10.1.12"), waiting, marked)
	l.labels("those with pods or an address in the pool bear its name", "marked -", "outside -", "stranger public", "w1 public", "waiting public")

	t.Log("a Node joins later")
	_, err := l.client.CoreV1().Nodes().Create(t.Context(), later, metav1.CreateOptions{})
	l.must(err)
	l.labels("so does one that joins later", "later public", "marked -", "outside -", "stranger public", "w1 public", "waiting public")
	if got, want := fmt.Sprint(l.writes()), "map[later:1 marked:1 stranger:1 w1:1 waiting:1]"; got != want {
		t.Errorf("writes: %s, want %s", got, want)
	}

	t.Log("another pool has some of them, too")
	l.inForce.Set(withPools(t, "{name: public, addresses: [192.0.2.0/27, 192.0.2.64/26]}, {name: open, addresses: [192.0.2.32/27, 192.0.2.128/26]}"))
	l.labels("each bears the first name of those that have it", "later open", "marked -", "outside -", "stranger -", "w1 open", "waiting public")

	t.Log("they are excluded")
	l.inForce.Set(withPools(t, "{name: public, addresses: [192.0.2.0/24], exclude: [192.0.2.0/24]}, {name: beside, addresses: [198.51.100.0/24]}"))
	l.labels("nobody bears the label", "later -", "marked -", "outside -", "stranger -", "w1 -", "waiting -")
	if got, want := fmt.Sprint(l.writes()), "map[later:3 marked:1 stranger:2 w1:3 waiting:2]"; got != want {
		t.Errorf("writes: %s, want %s", got, want)
	}
}

// Of a healthy cluster no Node is written to for pools, whatever comes into force and whatever is said of Nodes.
func TestANodeThatNoPoolHasAddressesOfIsNotWrittenTo(t *testing.T) {
	d := newDesk(t, "{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [192.0.2.0/24")
	for range 2 {
		for _, n := range []*v1.Node{nodeWith("w1", "10.244.1.0/24", "10.10.1.11"), nodeWith("stranger", "10.9.1.0/24", "10.9.0.1")} {
			d.sees(n)
		}
		d.inForce.Set(loaded(t, "{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [192.0.2.0/24, 198.51.100.0/24"))
	}
	for _, a := range d.cluster.Client.(*fake.Clientset).Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok && strings.Contains(string(p.GetPatch()), lb.InPoolLabel) {
			t.Errorf("node %s: %s", p.GetName(), p.GetPatch())
		}
	}
}

// A patch is of the Node as it was read: a new one of its name may have other addresses.
func TestTheLabelOfAPoolIsForTheNodeAsItWasRead(t *testing.T) {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "u1", ResourceVersion: "7"}}
	for pool, want := range map[string]string{
		"public": `{"metadata":{"labels":{"plinth.dev/in-pool":"public"},"resourceVersion":"7","uid":"u1"}}`,
		"":       `{"metadata":{"labels":{"plinth.dev/in-pool":null},"resourceVersion":"7","uid":"u1"}}`,
	} {
		if got, err := inPoolPatch(n, pool); err != nil || string(got) != want {
			t.Errorf("%q: %s, %v, want %s", pool, got, err, want)
		}
	}
}

// Another one's policy on labels is no reason to leave a machine's Node without its place, its taint and its provider ID.
func TestALabelOfAPoolThatIsRefusedHindersNothingElse(t *testing.T) {
	for what, c := range map[string]struct {
		refusal error
		rest    bool
	}{
		"a policy refuses it": {apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Node").GroupKind(), "w1", nil), true},
		"it may not be set":   {apierrors.NewForbidden(v1.Resource("nodes"), "w1", nil), true},
		"the Node is another": {apierrors.NewConflict(v1.Resource("nodes"), "w1", nil), false},
	} {
		d := newDesk(t, "{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [192.0.2.0/24")
		client, applied := d.cluster.Client.(*fake.Clientset), false
		client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.(clienttesting.PatchAction).GetPatchType() == types.MergePatchType {
				return true, nil, c.refusal
			}
			applied = true
			return true, &v1.Node{}, nil
		})
		if err := d.cluster.Nodes.Informer().GetIndexer().Update(nodeWith("w1", "192.0.2.0/26", "10.10.1.11")); err != nil {
			t.Fatal(err)
		}
		if err := d.sync(t.Context(), "w1"); !errors.Is(err, c.refusal) || applied != c.rest {
			t.Errorf("%s: the rest is written: %t, want %t; error %v", what, applied, c.rest, err)
		}
	}
}

// At the start no inventory is in force for a moment: no label is wrong then.
func TestWithoutAnInventoryNoLabelOfAPoolIsWrong(t *testing.T) {
	n := nodeWith("w1", "192.0.2.0/26", "10.10.1.11")
	for has, want := range map[string]bool{"": true, "public": false, "other": true} {
		n.Labels = map[string]string{lb.InPoolLabel: has}
		if pool, wrong := inPoolLabel(withPools(t, "{name: public, addresses: [192.0.2.0/24]}"), n); wrong != want || pool != "public" {
			t.Errorf("%q: it should be %q, is wrong: %t", has, pool, wrong)
		}
		if pool, wrong := inPoolLabel(nil, n); wrong {
			t.Errorf("%q: without an inventory it should be %q", has, pool)
		}
	}
}

func TestTheLogSaysWhetherALabelOfAPoolCameOrWent(t *testing.T) {
	d := newDesk(t, "{name: w1, addresses: [10.10.1.11]}]}]\n  pools: [{name: public, addresses: [192.0.2.0/24")
	var log bytes.Buffer
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	went := nodeWith("went", "10.9.1.0/24", "10.9.0.1")
	went.Labels = map[string]string{lb.InPoolLabel: "former"}
	for n, want := range map[*v1.Node]string{nodeWith("came", "192.0.2.0/26", "10.9.0.2"): "labelled a node", went: "took the label of a pool from a node"} {
		log.Reset()
		d.sees(n)
		if got := log.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: %q, want %q", n.Name, got, want)
		}
	}
}
