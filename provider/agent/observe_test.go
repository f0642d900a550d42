package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/proxy"
	"plinth.dev/plinth/provider/agent/watch"
	"plinth.dev/plinth/wait"
)

// onALink is the inventory of these machines and w9, which answer for the VIP of served on their subnet.
func onALink(t *testing.T, names ...string) *inventory.Inventory {
	t.Helper()
	text := `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  pools: [{name: lan, addresses: [203.0.113.4-203.0.113.12]}]
  racks:
    - name: r1
      subnets: [203.0.113.0/24]
      machines:
        - {name: w9, addresses: [203.0.113.109]}
`
	for _, name := range names {
		text += strings.ReplaceAll("        - {name: wN, addresses: [203.0.113.10N]}\n", "N", strings.TrimPrefix(name, "w"))
	}
	inv, problems := document.Load(document.Document{Source: "link.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return agenttest.Reparsed(t, inv)
}

// linkAgent is that of w1 at work, and what is on its link.
func linkAgent(t *testing.T, inv *inventory.Inventory) (*Agent, *agenttest.LAN) {
	t.Helper()
	a, f := agentIn(t, &world{}), agenttest.NewLAN()
	f.Subnet = onALink(t).Links()[0].Subnet
	f.Standing["w9"] = advertise.Up
	a.known.restored = nil
	a.outside.links = link.NewOf(slog.Default(), agenttest.Wire{LAN: f}, agenttest.Mesh{LAN: f}, a.touch)
	a.outside.links.Begin(t.Context())
	t.Cleanup(func() { _ = a.outside.links.Leave(context.Background(), 0) })
	a.o.Client = fake.NewClientset(agenttest.Served()...)
	a.sources = watch.New(slog.Default(), a.o.Client, "kube-system", "w1", a.touch)
	a.sources.FollowInventory = func(ctx context.Context, _ string, set func(source.Followed, error)) error {
		set(source.Followed{Inventory: inv}, nil)
		<-ctx.Done()
		return ctx.Err()
	}
	a.sources.Start(t.Context())
	a.hears(proxy.Serves)
	return a, f
}

// reidentify has the API server say of the machine's Node by what else it is told.
func reidentify(t *testing.T, a *Agent, change func(*inventory.NodeIdentity)) {
	t.Helper()
	n, err := a.o.Client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := plan.NodeOf(n).Identity
	change(&id)
	n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = id.ProviderID, id.SystemUUID.String()
	if _, err := a.o.Client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// passUntil makes passes until something is so.
func passUntil(t *testing.T, a *Agent, what string, ok func() bool) {
	t.Helper()
	wait.True(t, 20*time.Second, time.Millisecond, what, func() (bool, string) {
		a.pass(t.Context())
		return ok(), fmt.Sprintf("it waits for %q", a.waiting.what)
	})
}

func TestAMachineThatTheInventoryHasNoMoreAnswersForNothing(t *testing.T) {
	a, f := linkAgent(t, onALink(t, "w1"))
	passUntil(t, a, "it answers", func() bool { return len(f.Claims()) == 1 })
	a.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	passUntil(t, a, "it cannot read the inventory", func() bool { return a.reporting.unread.Inventory != "" })
	if len(a.planned.plan.Links) != 1 {
		t.Error("it leaves its link since it cannot read the inventory")
	}
	a.sources.Accept(t.Context(), source.Followed{Inventory: onALink(t, "w2")}, nil)
	passUntil(t, a, "it knows that it is gone", func() bool { return strings.Contains(a.waiting.what, "a machine of the inventory") })
	passUntil(t, a, "it answers no more", func() bool { return len(f.Claims()) == 0 && !f.IsMeshed() && len(a.outside.links.Claims()) == 0 })
	a.sources.Accept(t.Context(), source.Followed{}, agenttest.Newer())
	passUntil(t, a, "it cannot read the inventory", func() bool { return a.reporting.unread.Inventory != "" })
	if len(f.Claims()) > 0 || f.IsMeshed() {
		t.Error("it answers again since it cannot read the inventory")
	}
	a.sources.Accept(t.Context(), source.Followed{Inventory: onALink(t, "w1")}, nil)
	passUntil(t, a, "it answers again", func() bool { return len(f.Claims()) == 1 })
}

// The Node says of which rack it is a moment after the inventory does.
func TestAMachineThatComesToAnotherRackAnswersOn(t *testing.T) {
	a, f := linkAgent(t, onALink(t, "w1"))
	passUntil(t, a, "it answers", func() bool { return len(f.Claims()) == 1 })
	moved := onALink(t)
	moved.Racks = append(moved.Racks, inventory.Rack{Name: "r2", Subnets: moved.Racks[0].Subnets, Machines: onALink(t, "w1").Racks[0].Machines[1:]})
	docs := []document.Document{{Source: "common", Data: document.FormatAccepted(moved.Common())}, {Source: "r1", Data: document.FormatAccepted(moved.Slice("r1"))}}
	seen, problems := document.ParseAccepted(docs...)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	a.sources.Accept(t.Context(), source.Followed{Inventory: seen}, nil)
	passUntil(t, a, "it knows that it is in no rack that it sees", func() bool { return strings.Contains(a.waiting.what, "a machine of the inventory") })
	if a.known.unlisted || len(a.planned.plan.Links) != 1 || len(f.Claims()) != 1 {
		t.Errorf("planned are %+v, and it answers for %v", a.planned.plan.Links, f.Claims())
	}
}

// A typing error in an ID is none either; see [plan.Inputs.Begin].
func TestAMachineThatIsUnknownForItsIDAloneAnswersOn(t *testing.T) {
	a, f := linkAgent(t, onALink(t, "w1"))
	passUntil(t, a, "it answers", func() bool { return len(f.Claims()) == 1 })
	other := onALink(t, "w1")
	for i := range other.Racks[0].Machines {
		other.Racks[0].Machines[i].SystemUUID = inventory.ReportedUUID("00000000-0000-0000-0000-00000000000" + other.Racks[0].Machines[i].Name[1:])
	}
	reidentify(t, a, func(self *inventory.NodeIdentity) {
		self.SystemUUID = inventory.ReportedUUID("11111111-0000-0000-0000-000000000000")
	})
	a.sources.Accept(t.Context(), source.Followed{Inventory: agenttest.Reparsed(t, other)}, nil)
	passUntil(t, a, "it knows that it is another", func() bool { return strings.Contains(a.waiting.what, "has systemUUID") })
	if a.known.unlisted || len(a.planned.plan.Links) != 1 || len(f.Claims()) != 1 {
		t.Errorf("planned are %+v, and it answers for %v", a.planned.plan.Links, f.Claims())
	}
}

// Which machine a Node is may be in doubt for days: what it answers for does not stay as it was meanwhile.
func TestAMachineInDoubtFollowsItsEndpoints(t *testing.T) {
	for _, c := range []struct {
		name    string
		doubt   func(self *inventory.NodeIdentity, machines []inventory.Machine)
		waiting string
	}{
		{"another machine has its systemUUID", func(self *inventory.NodeIdentity, machines []inventory.Machine) {
			self.SystemUUID = inventory.ReportedUUID("11111111-0000-0000-0000-000000000000")
			machines[slices.IndexFunc(machines, func(m inventory.Machine) bool { return m.Name == "w9" })].SystemUUID = self.SystemUUID
		}, "could be any of the machines w1, w9"},
		{"its machine has another systemUUID", func(self *inventory.NodeIdentity, machines []inventory.Machine) {
			self.SystemUUID = inventory.ReportedUUID("11111111-0000-0000-0000-000000000000")
			machines[slices.IndexFunc(machines, func(m inventory.Machine) bool { return m.Name == "w1" })].SystemUUID = inventory.ReportedUUID("00000000-0000-0000-0000-000000000001")
		}, "has systemUUID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, f := linkAgent(t, onALink(t, "w1"))
			passUntil(t, a, "it answers", func() bool { return len(f.Claims()) == 1 })
			next := onALink(t, "w1")
			reidentify(t, a, func(self *inventory.NodeIdentity) {
				self.ProviderID = ""
				c.doubt(self, next.Racks[0].Machines)
			})
			a.sources.Accept(t.Context(), source.Followed{Inventory: agenttest.Reparsed(t, next)}, nil)
			passUntil(t, a, "it is in doubt", func() bool { return strings.Contains(a.waiting.what, c.waiting) })
			client := a.o.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
			all, err := client.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(all.Items) == 0 {
				t.Fatal(len(all.Items), err)
			}
			for _, s := range all.Items {
				if err := a.o.Client.DiscoveryV1().EndpointSlices(s.Namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			passUntil(t, a, "it answers for nothing without endpoints", func() bool { return len(f.Claims()) == 0 })
			for _, s := range all.Items {
				s.ResourceVersion = ""
				if _, err := a.o.Client.DiscoveryV1().EndpointSlices(s.Namespace).Create(t.Context(), &s, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			passUntil(t, a, "it answers again", func() bool { return len(f.Claims()) == 1 })
			if !strings.Contains(a.waiting.what, c.waiting) {
				t.Errorf("it does not say any more what it waits for: %q", a.waiting.what)
			}
		})
	}
}

// A default route goes with the interface, and comes back some time after it. Until it was looked for again
// a machine without a majority would have no witness, and answer for nothing.
func TestAGatewayIsTheWitnessUntilThereIsAnother(t *testing.T) {
	a, f := linkAgent(t, onALink(t, "w1"))
	var now []netip.Addr
	a.outside.witnesses.Find = func(subnet netip.Prefix, self netip.Addr) ([]netip.Addr, error) {
		if p := a.planned.plan.Links[0]; p.Link.Subnet != subnet || p.Self != self {
			t.Errorf("asked for %v and %v, which is no link: %+v", subnet, self, p.Link)
		}
		return now, nil
	}
	passUntil(t, a, "it answers", func() bool { return len(f.Claims()) == 1 })
	m, err := a.inputs.Machine()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		found   []string
		witness string
	}{{[]string{"203.0.113.1"}, "203.0.113.1"}, {nil, "203.0.113.1"}, {[]string{"203.0.113.2"}, "203.0.113.2"}, {nil, "203.0.113.2"}} {
		now = nil
		for _, addr := range step.found {
			now = append(now, netip.MustParseAddr(addr))
		}
		a.findWitnesses(m)
		if got := a.outside.witnesses.Fill(a.planned.plan.Links)[0].Link.Witness; fmt.Sprint(got) != "["+step.witness+"]" {
			t.Errorf("with the gateways %v the witness is %v, want %s", step.found, got, step.witness)
		}
		waitFor(t, fmt.Sprintf("with the gateways %v the witness %s", step.found, step.witness), func() bool {
			f.Mu.Lock()
			defer f.Mu.Unlock()
			return fmt.Sprint(f.Witness) == "["+step.witness+"]"
		})
	}
}
