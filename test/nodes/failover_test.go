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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// failover is a cluster with two controller managers, one of which leads.
type failover struct {
	*cluster
	leader, other *apiserver.Process
	backup        apiserver.Backup
	counted       string // how often a leader was, when the backup was made
	step          int
}

// place is an inventory of three machines. Its label shows which edit a Node has seen.
func (f *failover) place(zone, state string) string {
	f.step++
	return apiserver.Document(fmt.Sprintf(`
  labels: {example.com/step: "%d"}
  podNetwork: {mode: direct, cidrs: [10.42.0.0/16]}
  racks:
    - name: r01
      zone: %s
      machines:
        - {name: w1, addresses: [10.10.1.11], taints: [{key: dedicated, value: db, effect: NoSchedule}]}
        - {name: w2, addresses: [10.10.1.12], state: %s}
        - {name: w3, addresses: [10.10.1.13], state: "off"}
`, f.step, zone, state))
}

var placed = []string{"w1", "w2", "w3"}

// TestNodesOutliveEveryFailureOfTheControlPlane goes through what control planes
// suffer, in one cluster. After each failure an edit shows that the leader works,
// and that every Node is as it was: there, in its zone, tainted as before.
func TestNodesOutliveEveryFailureOfTheControlPlane(t *testing.T) {
	f := &failover{cluster: newCluster(t, apiserver.Options{})}
	f.edit(f.place("a", "active"))
	f.leader = f.Launch(elected...)
	f.awaitOtherLeader("")
	f.other = f.Launch(elected...)
	for _, name := range placed {
		f.register(node{name: name, notReady: name == "w3"})
		f.until(name, "is initialised", apiserver.Initialised)
	}
	f.register(node{name: "stranger", adopted: true, notReady: true})
	f.until("w3", "is off", has("node.cloudprovider.kubernetes.io/shutdown:NoSchedule"))
	f.works("a")
	was := f.nodes()
	for _, failure := range []struct {
		what string
		fail func()
		zone string // of the edit that follows
	}{
		{"the leader is killed", f.killLeader, "a"},
		{"the leader stands still for longer than its lease, and goes on with what it knew", f.pauseLeader, "b"},
		{"both end, and one that asks for no lease starts", f.startAlone, "b"},
		{"etcd and the API server restart", func() { f.backup, f.counted = f.Backup(), f.count() }, "b"},
		{"the API server restarts, and every watch is too old to be resumed", f.expire, "c"},
		{"etcd is restored from a backup: resource versions go back", f.restore, "d"},
	} {
		t.Log(failure.what)
		failure.fail()
		f.works(failure.zone)
		f.same(was)
	}
}

func (f *failover) killLeader() {
	f.t.Helper()
	holder := f.holder()
	f.leader.Kill()
	f.awaitOtherLeader(holder)
	f.leader, f.other = f.other, f.Launch(elected...)
}

// pauseLeader has the leader know that w2 is retired and that the zone is a, and
// stand still while neither stays true and w2 is not Ready any more.
func (f *failover) pauseLeader() {
	f.t.Helper()
	f.edit(f.place("a", "retired"))
	f.until("w1", "has seen the edit", f.seen("a"))
	holder := f.holder()
	f.leader.Pause()
	f.awaitOtherLeader(holder)
	f.works("b")
	f.patch("w2", "status", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady"}]}}`)
	before := len(f.Writes())
	f.leader.Resume()
	f.leader.Ended(60 * time.Second)
	f.stays(time.Second, placed...)
	for _, w := range f.Written(before) {
		if w.Resource == "nodes" {
			f.t.Errorf("written for a leader that was none any more: %+v", w)
		}
	}
	f.leader, f.other = f.other, f.Launch(elected...)
}

func (f *failover) startAlone() {
	f.leader.Kill()
	f.other.Kill()
	// A server that has not read its roles yet refuses whom it will not refuse in a
	// moment, and an informer begins anew then without having asked for its watch.
	f.leader = f.Launch("--node-monitor-period=500ms", "--vmodule=reflector=4", "--kubeconfig="+f.Kubeconfig)
}

func (f *failover) expire() {
	f.t.Helper()
	f.Expire()
	f.Eventually(20*time.Second, "a watch has expired", func(context.Context) error {
		if !strings.Contains(f.Log(apiserver.ControllerName), "too old resource version") {
			return errors.New("no word of it in the log")
		}
		return nil
	})
}

// restore puts back a backup that is old enough for a leader to have been counted since.
func (f *failover) restore() {
	f.t.Helper()
	f.Eventually(30*time.Second, "the leader is counted", func(context.Context) error {
		if now := f.count(); now == f.counted {
			return fmt.Errorf("it is at %q", now)
		}
		return nil
	})
	f.Restore(f.backup)
	f.leader.Ended(60 * time.Second)
	f.startAlone()
}

// count returns how often a leader was counted.
func (f *failover) count() string {
	f.t.Helper()
	m, err := f.Client.CoreV1().ConfigMaps("kube-system").Get(f.t.Context(), "plinth-released", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return m.Data["writes"]
}

// works edits the inventory and waits until every machine's Node shows it.
func (f *failover) works(zone string) {
	f.t.Helper()
	f.edit(f.place(zone, "active"))
	for _, name := range placed {
		f.until(name, "has seen the edit", f.seen(zone))
	}
}

func (f *failover) seen(zone string) func(*v1.Node) error {
	return labelled(map[string]string{"example.com/step": fmt.Sprint(f.step), v1.LabelTopologyZone: zone, v1.LabelFailureDomainBetaZone: zone})
}

func (f *failover) holder() string {
	lease, err := f.Client.CoordinationV1().Leases("kube-system").Get(f.t.Context(), "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (f *failover) awaitOtherLeader(than string) {
	f.t.Helper()
	f.Eventually(20*time.Second, "another leads", func(context.Context) error {
		if now := f.holder(); now == "" || now == than {
			return fmt.Errorf("%q leads", now)
		}
		return nil
	})
}

func (f *failover) nodes() map[string]*v1.Node {
	f.t.Helper()
	out := map[string]*v1.Node{}
	for _, name := range append(placed, "stranger") {
		out[name] = f.get(name)
	}
	return out
}

// same checks that Nodes are the same as they were, but for the labels that show an edit.
func (f *failover) same(was map[string]*v1.Node) {
	f.t.Helper()
	for name, n := range f.nodes() {
		before := was[name]
		for _, key := range []string{"example.com/step", v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone} {
			delete(n.Labels, key)
			delete(before.Labels, key)
		}
		if n.UID != before.UID || !maps.Equal(n.Labels, before.Labels) || fmt.Sprint(n.Spec) != fmt.Sprint(before.Spec) {
			f.t.Errorf("node %s was %s %v %+v, is %s %v %+v", name, before.UID, before.Labels, before.Spec, n.UID, n.Labels, n.Spec)
		}
	}
}
