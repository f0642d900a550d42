package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/queue"
	"plinth.dev/plinth/wait"
)

const namespace = "kube-system"

func nodeIn(rack, name, cidr string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: metav1.Unix(7, 0)}, Spec: v1.NodeSpec{ProviderID: "plinth://dc1/" + name, PodCIDRs: []string{cidr}}}
	if rack != "" {
		n.Labels[inventory.LabelRack] = rack
	}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.1.0.1"}, {Type: v1.NodeExternalIP, Address: "203.0.113.9"}, {Type: v1.NodeHostName, Address: name}}
	return n
}

// run runs a controller until the test, or what it returns, ends it.
func run(t *testing.T, client *fake.Clientset) (stop context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &Controller{Client: client, Namespace: namespace, Log: slog.New(slog.DiscardHandler)}
	if err := c.Start(ctx, factory.Core().V1().Nodes()); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	return stop
}

// printed prints the directory: a line for the index, and one a page.
func printed(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range list.Items {
		cm := &list.Items[i]
		if cm.Name == IndexName {
			index, err := IndexIn(cm)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("index %q missing %q %v", index.Racks, index.Missing, index.InPools))
			continue
		}
		page, err := PageIn(cm)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s of %q:", cm.Name, cm.Labels[LabelRack])
		for _, n := range page {
			line += fmt.Sprintf(" %s %v", n.Name, n.PodCIDRs)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func awaitDirectory(t *testing.T, client *fake.Clientset, want ...string) {
	t.Helper()
	wait.True(t, 20*time.Second, 5*time.Millisecond, "the directory says\n"+strings.Join(want, "\n"), func() (bool, string) {
		got := printed(t, client)
		return got == strings.Join(want, "\n"), got
	})
}

// written are the names of the ConfigMaps that were written so far.
func written(client *fake.Clientset) (names []string) {
	for _, a := range client.Actions() {
		if a.GetResource().Resource != "configmaps" {
			continue
		}
		switch a := a.(type) {
		case clienttesting.DeleteAction:
			names = append(names, a.GetName())
		case clienttesting.CreateAction: // updates are, too
			names = append(names, a.GetObject().(*v1.ConfigMap).Name)
		}
	}
	return names
}

// checkNamedPages fails the test where the index names a page that is not there.
func checkNamedPages(t *testing.T, client *fake.Clientset) clienttesting.ReactionFunc {
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		var index *v1.ConfigMap
		switch a := a.(type) {
		case clienttesting.DeleteAction:
			obj, err := client.Tracker().Get(a.GetResource(), namespace, IndexName)
			if err == nil {
				index = obj.(*v1.ConfigMap)
			}
			x := Index{}
			if err == nil {
				x, err = IndexIn(index)
			}
			if err == nil && slices.ContainsFunc(x.Racks, func(rack string) bool { return PageName(rack) == a.GetName() }) {
				t.Errorf("%s is deleted while the index names %q", a.GetName(), x.Racks)
			}
		case clienttesting.CreateAction: // updates are, too
			cm, ours := a.GetObject().(*v1.ConfigMap)
			if !ours || cm.Name != IndexName {
				break
			}
			x, err := IndexIn(cm)
			if err != nil {
				t.Error(err)
			}
			for _, rack := range x.Racks {
				if _, err := client.Tracker().Get(a.GetResource(), namespace, PageName(rack)); err != nil {
					t.Errorf("the index names %q: %v", x.Racks, err)
				}
			}
		}
		return false, nil, nil
	}
}

func update(t *testing.T, client *fake.Clientset, node *v1.Node) {
	t.Helper()
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestTheDirectorySaysWhatTheNodesSay(t *testing.T) {
	w1, w2, w3 := nodeIn("r1", "w1", "10.244.1.0/24"), nodeIn("r1", "w2", "10.244.2.0/24"), nodeIn("r2", "w3", "203.0.113.16/28")
	client := fake.NewClientset(w2, w1, w3, nodeIn("", "stranger", "10.244.9.0/24"), nodeIn("Not_Ours", "other", "10.244.8.0/24"))
	run(t, client)
	r2, unplaced := `plinth-nodes.r2 of "r2": w3 [203.0.113.16/28]`, `plinth-nodes-unplaced of "": other [10.244.8.0/24] stranger [10.244.9.0/24]`
	awaitDirectory(t, client, `index ["" "r1" "r2"] missing [] map[]`, unplaced, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24] w2 [10.244.2.0/24]`, r2)

	t.Log("one gets the label of a pool, one goes to another rack, one is another machine")
	w3.Labels[lb.InPoolLabel] = "public"
	update(t, client, w3)
	w2.Labels[inventory.LabelRack] = "r3"
	update(t, client, w2)
	w1.Spec.PodCIDRs = []string{"10.244.7.0/24"}
	update(t, client, w1)
	awaitDirectory(t, client, `index ["" "r1" "r2" "r3"] missing [] map[w3:[203.0.113.16/28 10.1.0.1/32 203.0.113.9/32]]`, unplaced, `plinth-nodes.r1 of "r1": w1 [10.244.7.0/24]`, r2,
		`plinth-nodes.r3 of "r3": w2 [10.244.2.0/24]`)

	t.Log("one is gone, and with it the last one of its rack")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitDirectory(t, client, `index ["" "r1" "r2"] missing [] map[w3:[203.0.113.16/28 10.1.0.1/32 203.0.113.9/32]]`, unplaced, `plinth-nodes.r1 of "r1": w1 [10.244.7.0/24]`, r2)
}

func TestAPageIsThereBeforeTheIndexNamesItAndUntilItDoesNot(t *testing.T) {
	client := fake.NewClientset(nodeIn("r1", "w1", "10.244.1.0/24"), nodeIn("r2", "w2", "10.244.2.0/24"))
	client.PrependReactor("*", "configmaps", checkNamedPages(t, client))
	run(t, client)
	awaitDirectory(t, client, `index ["r1" "r2"] missing [] map[]`, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24]`, `plinth-nodes.r2 of "r2": w2 [10.244.2.0/24]`)
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitDirectory(t, client, `index ["r1"] missing [] map[]`, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24]`)
}

// TestANodeThatMovesIsInAPageAllTheTime has the middle one of three go to a rack that had none, and back, while its new page cannot be stored at first.
func TestANodeThatMovesIsInAPageAllTheTime(t *testing.T) {
	w2 := nodeIn("r1", "w2", "10.244.2.0/24")
	client := fake.NewClientset(nodeIn("r1", "w1", "10.244.1.0/24"), w2, nodeIn("r1", "w3", "10.244.3.0/24"))
	var refused, lost atomic.Int32
	client.PrependReactor("*", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a, writes := a.(clienttesting.CreateAction) // updates are, too
		if !writes {
			return false, nil, nil
		}
		cm := a.(clienttesting.CreateAction).GetObject().(*v1.ConfigMap)
		switch stored := client.Tracker(); {
		case cm.Name == PageName("r2") && refused.Add(1) <= 3:
			return true, nil, errors.New("the quota is exceeded")
		case cm.Name == PageName("r1") && !strings.Contains(cm.Data[keyNodes], `"w2"`):
			other, err := stored.Get(a.GetResource(), namespace, PageName("r2"))
			if err != nil || !strings.Contains(other.(*v1.ConfigMap).Data[keyNodes], `"w2"`) {
				lost.Add(1)
			}
		}
		return false, nil, nil
	})
	run(t, client)
	before := []string{`index ["r1"] missing [] map[]`, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24] w2 [10.244.2.0/24] w3 [10.244.3.0/24]`}
	awaitDirectory(t, client, before...)
	w2.Labels[inventory.LabelRack] = "r2"
	update(t, client, w2)
	awaitDirectory(t, client, `index ["r1"] missing ["r2"] map[]`, before[1])
	awaitDirectory(t, client, `index ["r1" "r2"] missing [] map[]`, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24] w3 [10.244.3.0/24]`, `plinth-nodes.r2 of "r2": w2 [10.244.2.0/24]`)
	w2.Labels[inventory.LabelRack] = "r1"
	update(t, client, w2)
	awaitDirectory(t, client, before...)
	if refused.Load() < 4 || lost.Load() > 0 {
		t.Errorf("page r2 was written %d times, and w2 was in no page %d times", refused.Load(), lost.Load())
	}
}

func TestReportsOfKubeletsChangeNothing(t *testing.T) {
	synced := make(chan string, 9)
	c := &Controller{}
	c.queue = queue.New("test", slog.New(slog.DiscardHandler), func(_ context.Context, name string) error {
		synced <- name
		return nil
	})
	go c.queue.Run(t.Context(), 1)
	w1 := nodeIn("r1", "w1", "10.244.1.0/24")
	reported := w1.DeepCopy()
	reported.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: metav1.Now()}}
	c.ofNodes().OnUpdate(w1, reported)
	select {
	case <-synced:
		t.Error("a pass is made for a report")
	case <-time.After(3 * pace):
	}
	other := w1.DeepCopy()
	other.Spec.PodCIDRs = []string{"10.244.7.0/24"}
	c.ofNodes().OnUpdate(w1, other)
	<-synced
}

func TestTheNextLeaderWritesNothingThatIsThere(t *testing.T) {
	client := fake.NewClientset(nodeIn("r1", "w1", "10.244.1.0/24"))
	stop := run(t, client)
	r1 := `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24]`
	awaitDirectory(t, client, `index ["r1"] missing [] map[]`, r1)
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	next := fake.NewClientset(list, nodeIn("r1", "w1", "10.244.1.0/24"), nodeIn("r2", "w2", "10.244.2.0/24"))
	run(t, next)
	awaitDirectory(t, next, `index ["r1" "r2"] missing [] map[]`, r1, `plinth-nodes.r2 of "r2": w2 [10.244.2.0/24]`)
	if names := written(next); slices.Contains(names, PageName("r1")) {
		t.Errorf("it wrote %v", names)
	}
}

func TestWhatSomebodyElseWritesIsMended(t *testing.T) {
	client := fake.NewClientset(nodeIn("r1", "w1", "10.244.1.0/24"))
	run(t, client)
	want := []string{`index ["r1"] missing [] map[]`, `plinth-nodes.r1 of "r1": w1 [10.244.1.0/24]`}
	awaitDirectory(t, client, want...)
	maps := client.CoreV1().ConfigMaps(namespace)
	for _, name := range []string{IndexName, PageName("r1")} {
		if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitDirectory(t, client, want...)
		cm, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cm.Data, cm.Labels = map[string]string{keyNodes: `{"Name":"evil"}`, keyRacks: "[]", keyMissing: "[]", keyInPools: "{}"}, map[string]string{"theirs": "stays"}
		if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitDirectory(t, client, want...)
		if cm, err = maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil || cm.Labels["theirs"] != "stays" {
			t.Errorf("%s has the labels %v, %v", name, cm.Labels, err)
		}
	}
}

func TestAPageThatDoesNotFitIsNotStoredAndItsRackIsNamed(t *testing.T) {
	client := fake.NewClientset(nodeIn("r2", "other", "10.244.1.0/24"))
	name := func(i int) string { return fmt.Sprintf("w%03d", i) }
	for i := range 450 {
		n := nodeIn("r1", name(i), "10.244.1.0/24")
		n.Spec.ProviderID = strings.Repeat("x", 2000)
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	run(t, client)
	r2 := `plinth-nodes.r2 of "r2": other [10.244.1.0/24]`
	awaitDirectory(t, client, `index ["r2"] missing ["r1"] map[]`, r2)

	t.Log("some go")
	for i := range 40 {
		if err := client.CoreV1().Nodes().Delete(t.Context(), name(i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r1 := `plinth-nodes.r1 of "r1":`
	for i := 40; i < 450; i++ {
		r1 += " " + name(i) + " [10.244.1.0/24]"
	}
	awaitDirectory(t, client, `index ["r1" "r2"] missing [] map[]`, r1, r2)

	t.Log("some come")
	for i := range 40 {
		n := nodeIn("r1", name(i), "10.244.1.0/24")
		n.Spec.ProviderID = strings.Repeat("x", 2000)
		if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitDirectory(t, client, `index ["r2"] missing ["r1"] map[]`, r2)
}

func TestTheFormatIsKept(t *testing.T) {
	w1 := nodeIn("r1", "w1", "10.244.1.0/24")
	page, fits := pagesOf([]*v1.Node{w1})["r1"].configMap("r1")
	const line = `{"Name":"w1","ProviderID":"plinth://dc1/w1","Rack":"r1","Created":"1970-01-01T00:00:07Z","Addresses":["10.1.0.1"],"PodCIDRs":["10.244.1.0/24"]}` + "\n"
	if got := page.Data["nodes.json"]; !fits || got != line {
		t.Errorf("the page is\n%s, want\n%s", got, line)
	}
	index, _ := Index{Racks: []string{"", "r1"}, Missing: []string{"r2"}, InPools: map[string][]netip.Prefix{"w1": {netip.MustParsePrefix("10.1.0.1/32")}}}.configMap()
	want := map[string]string{"racks.json": `["","r1"]`, "missing.json": `["r2"]`, "in-pools.json": `{"w1":["10.1.0.1/32"]}`}
	if !maps.Equal(index.Data, want) {
		t.Errorf("the index is %v, want %v", index.Data, want)
	}
	for _, cm := range []*v1.ConfigMap{page, index} {
		if cm.Annotations["plinth.dev/format"] != "1" || cm.Labels["plinth.dev/accepted"] != "plinth_nodes" {
			t.Errorf("%s has %v and %v", cm.Name, cm.Labels, cm.Annotations)
		}
	}
	if page.Name != "plinth-nodes.r1" || page.Labels["plinth.dev/nodes-of"] != "r1" || index.Name != "plinth-nodes" {
		t.Errorf("they are called %s and %s, of %v", page.Name, index.Name, page.Labels)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	newer := map[string]string{inventory.AnnotationFormat: "2"}
	for what, cm := range map[string]v1.ConfigMap{
		"a newer format":      {ObjectMeta: metav1.ObjectMeta{Annotations: newer}, Data: map[string]string{keyNodes: "", keyRacks: "[]", keyMissing: "[]", keyInPools: "{}"}},
		"nothing":             {},
		"no JSON":             {Data: map[string]string{keyNodes: "x", keyRacks: "x", keyMissing: "x", keyInPools: "x"}},
		"a Node with no name": {Data: map[string]string{keyNodes: "{}", keyRacks: "[]", keyMissing: "[]", keyInPools: "[]"}},
	} {
		if page, err := PageIn(&cm); err == nil {
			t.Errorf("%s: the page is %v", what, page)
		}
		if index, err := IndexIn(&cm); err == nil {
			t.Errorf("%s: the index is %v", what, index)
		}
	}
	if source.LabelAccepted+"="+source.OfDirectory != Selector {
		t.Errorf("it is selected by %s", Selector)
	}
}
