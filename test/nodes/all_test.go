//go:build slow

package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"plinth.dev/plinth/test/apiserver"
)

// How long the story of all controllers takes, and how long a Node must outlive
// each blow: the lifecycle controller looks every five seconds.
const (
	storyTakes = 5 * time.Minute
	outlives   = 12 * time.Second
)

// TestNodesAreLookedAfterBesideAllStockControllers lives five minutes with every
// controller of kube-controller-manager and of the cloud controller manager, with
// their defaults. It mostly waits, so it begins now and goes on beside the tests
// that come after it.
func TestNodesAreLookedAfterBesideAllStockControllers(t *testing.T) {
	s := &story{cluster: newCluster(t, apiserver.Options{Controllers: true}), begun: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.tell()
	}()
	t.Parallel()
	<-done
}

// story is a cluster that five minutes are told of.
type story struct {
	*cluster
	begun   time.Time
	adopted map[string]*v1.Node // as they were before Plinth came
	changes watch.Interface     // of the Nodes of the rack that moved
}

// shelf is the inventory. Rack r01 is the one that is moved to another zone, r02
// that of machines which k3s made Nodes of.
func (s *story) shelf(zone string, states map[string]string) string {
	state := func(name string) string {
		if states[name] == "" {
			return "active"
		}
		return states[name]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  region: dc1\n  podNetwork: {mode: direct, cidrs: [10.42.0.0/16, \"fd00:42::/48\"]}\n  racks:\n    - name: r01\n      zone: %s\n      machines:\n", zone)
	for i, name := range []string{"w1", "w2", "down", "off", "old"} {
		if state(name) == "vanished" {
			continue
		}
		fmt.Fprintf(&b, "        - {name: %s, addresses: [10.10.1.%d, \"2001:db8::%d\"], type: m, state: %q}\n", name, 11+i, 11+i, state(name))
	}
	b.WriteString("    - name: r02\n      zone: k\n      machines:\n")
	for i := range 3 {
		fmt.Fprintf(&b, "        - {name: k%d, id: SN-%d, addresses: [10.10.2.%d], aliases: [\"k3s://k%d\"]}\n", i, i, 11+i, i)
	}
	return apiserver.Document(b.String())
}

func (s *story) tell() {
	s.adopted = map[string]*v1.Node{}
	for i := range 3 {
		name := fmt.Sprintf("k%d", i)
		s.adopted[name] = s.register(node{name: name, providerID: "k3s://" + name, adopted: true, podCIDRs: []string{fmt.Sprintf("10.42.%d.0/24", 200+i)},
			labels: map[string]string{"node.kubernetes.io/instance-type": "k3s", "beta.kubernetes.io/instance-type": "k3s", "example.com/owner": "carla"}})
	}
	s.edit(s.shelf("a", nil))
	s.Start()
	for name, notReady := range map[string]bool{"w1": false, "w2": false, "down": true, "off": false, "old": true} {
		s.register(node{name: name, notReady: notReady})
	}
	for _, name := range []string{"w1", "w2", "down", "off", "old"} {
		s.until(name, "is initialised", apiserver.Initialised)
	}
	for _, name := range []string{"w1", "w2", "down", "off", "k0", "k1", "k2"} {
		s.patch(name, "status", `{"status":{"conditions":[{"type":"plinth.dev/FabricReady","status":"True"}]}}`) // as the agents would
	}
	uid := s.get("down").UID
	s.moveRack()
	s.outlive(uid, "its machine vanished", s.shelf("b", map[string]string{"down": "vanished"}))
	s.outlive(uid, "its ConfigMap is empty", "")
	s.outlive(uid, "its ConfigMap is broken", s.shelf("b", nil)[:300])
	if err := s.Client.CoreV1().ConfigMaps("kube-system").Delete(s.t.Context(), apiserver.InventoryName, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.stays(outlives, "down")
	s.retire()
	s.switchOff()
	s.rest(uid)
}

// moveRack edits the zone of a rack and has it watched from then on.
func (s *story) moveRack() {
	edited := time.Now()
	s.edit(s.shelf("b", nil))
	for _, name := range []string{"w1", "w2", "down", "off", "old"} {
		s.until(name, "has moved", inZone("b"))
	}
	if took := time.Since(edited); took > 15*time.Second { // long before the stock controller's next round, or a resync
		s.t.Errorf("it took %s until every Node of the rack had its labels", took)
	}
	list, err := s.Client.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	changes, err := s.Client.CoreV1().Nodes().Watch(s.t.Context(), metav1.ListOptions{LabelSelector: "plinth.dev/rack=r01", ResourceVersion: list.ResourceVersion})
	if err != nil {
		s.t.Fatal(err)
	}
	s.changes = changes
	go func() {
		for change := range changes.ResultChan() {
			if n, ok := change.Object.(*v1.Node); ok {
				if err := inZone("b")(n); err != nil {
					s.t.Errorf("node %s for a moment: %v", n.Name, err)
				}
			}
		}
	}()
}

func inZone(zone string) func(*v1.Node) error {
	return labelled(map[string]string{v1.LabelTopologyZone: zone, v1.LabelFailureDomainBetaZone: zone})
}

// outlive writes an inventory and waits whether a Node that is not Ready goes.
func (s *story) outlive(uid types.UID, what, text string) {
	s.t.Log(what)
	s.edit(text)
	s.stays(outlives, "down")
	if now := s.get("down").UID; now != uid {
		s.t.Errorf("%s: the node was made anew", what)
	}
	s.edit(s.shelf("b", nil))
	s.AwaitStatus("ready", "true")
}

func (s *story) retire() {
	s.edit(s.shelf("b", map[string]string{"old": "retired"}))
	s.Eventually(30*time.Second, "the retired machine's node is gone", func(ctx context.Context) error {
		_, err := s.Client.CoreV1().Nodes().Get(ctx, "old", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

func (s *story) switchOff() {
	const shutdown = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"
	retired := map[string]string{"old": "retired", "off": "off"}
	s.edit(s.shelf("b", retired))
	s.ready("off", false)
	s.until("off", "is shut down", has(shutdown))
	delete(retired, "off")
	s.edit(s.shelf("b", retired))
	s.ready("off", true)
	s.until("off", "is up again", hasNot(shutdown))
}

// rest waits until the five minutes are over, and then looks at everything once more.
func (s *story) rest(down types.UID) {
	select {
	case <-time.After(time.Until(s.begun.Add(storyTakes))):
	case <-s.t.Context().Done():
	}
	s.changes.Stop()
	for _, name := range []string{"w1", "w2", "down", "off"} {
		if err := inZone("b")(s.get(name)); err != nil {
			s.t.Errorf("node %s in the end: %v", name, err)
		}
	}
	if s.get("down").UID != down {
		s.t.Error("node down was made anew")
	}
	for name, was := range s.adopted {
		is := s.get(name)
		if is.UID != was.UID || is.Spec.ProviderID != was.Spec.ProviderID || is.Spec.PodCIDR != was.Spec.PodCIDR || len(is.Spec.Taints) != 0 {
			s.t.Errorf("node %s was %s %+v, is %s %+v", name, was.UID, was.Spec, is.UID, is.Spec)
		}
		if err := inZone("k")(is); err != nil {
			s.t.Errorf("node %s: %v", name, err)
		}
		kept := maps.Clone(is.Labels)
		maps.DeleteFunc(kept, func(key, _ string) bool { _, had := was.Labels[key]; return !had })
		if !maps.Equal(kept, was.Labels) {
			s.t.Errorf("node %s had the labels %v, has %v of them", name, was.Labels, kept)
		}
	}
	for _, w := range s.Writes() {
		if w.Verb == "delete" && w.Resource == "nodes" && w.Name != "old" {
			s.t.Errorf("deleted: %+v", w)
		}
	}
}
