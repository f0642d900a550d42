package onlink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// TestMachinesOnTwoLinksAnswerOnEachAtTheInterfaceThatHasTheirAddress puts all machines and the phone on a second subnet: two
// machines have their address there on the interface, one on a bridge over it. No router is there, so nobody is the subnet's
// witness, and a machine that is cut off says so.
func TestMachinesOnTwoLinksAnswerOnEachAtTheInterfaceThatHasTheirAddress(t *testing.T) {
	const link, pool = "lan9", "10.9.0.200-10.9.0.209"
	l := story.Home(t)
	machines := l.Topology.Machines()
	edited := story.Edited(t, lab.Inventory(l.Topology), "subnets: [", "subnets: [10.9.0.0/24, ")
	addrs := map[string]netip.Addr{lab.Phone: netip.MustParseAddr("10.9.0.77")}
	for i, m := range machines {
		addrs[m.Name] = netip.AddrFrom4([4]byte{10, 9, 0, byte(11 + i)})
		own := l.Topology.MachineAddress(m.Name)
		before := fmt.Sprintf("addresses: [%s, %q", own.V4, own.V6)
		edited = story.Edited(t, edited, before, before+", "+addrs[m.Name].String())
	}
	t.Cleanup(func() {
		must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology)))
		must(t, l.RemoveLink(link))
		must(t, story.LinksUp(context.Background(), l))
	})
	must(t, l.AddLink(link, addrs))
	onBridge(t, l, machines[2].Name, link, addrs[machines[2].Name])
	must(t, l.ApplyInventory(t.Context(), edited, lab.Pool(l.Topology, "second", pool)+"      autoAssign: false\n"))
	vips := map[string]netip.Addr{}
	for _, m := range machines {
		s := story.IPv4Alone(lab.LoadBalancer("second-"+m.Name, ""))
		s.Annotations = map[string]string{"plinth.dev/pool": "second", "plinth.dev/home": m.Name}
		t.Cleanup(func() { must(t, l.RemoveOutside(context.Background(), s.Name)) })
		exposed, err := l.ExposeOutside(t.Context(), s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
		must(t, err)
		vips[m.Name] = exposed[0]
	}
	must(t, story.LinksUp(t.Context(), l))
	for machine, vip := range vips {
		must(t, l.WaitServedFrom(t.Context(), lab.Phone, vip))
		must(t, lab.Within(t.Context(), found, func(ctx context.Context) error {
			at, err := l.NeighbourOf(ctx, lab.Phone, vip)
			if err == nil && at != machine {
				err = fmt.Errorf("the phone finds %s at %q, want %s", vip, at, machine)
			}
			return err
		}))
	}

	lonely := machines[2].Name
	t.Cleanup(func() { must(t, l.SetSevered(context.Background())) })
	must(t, l.SetSevered(t.Context(), lab.Apart([]string{lonely}, l.Others(story.Shelf, lonely))...))
	must(t, lab.Within(t.Context(), found, func(ctx context.Context) error {
		return errors.Join(story.InStatus(ctx, l, lonely, "10.9.0.0/24 "+string(lb.NoMajority)),
			story.BrokenAt(ctx, l, "vip/"+vips[lonely].String(), "on the link", lonely+": 10.9.0.0/24 "+string(lb.NoMajority)))
	}))
	must(t, l.WaitServedFrom(t.Context(), lab.Phone, vips[lonely])) // by another one
	must(t, l.SetSevered(t.Context()))
	must(t, story.LinksUp(t.Context(), l))
}

// TestRacksThatShareASubnetAreOneLink puts one of three machines into a rack of its own, on the same subnet: no VIP moves by
// that, and its VIP goes to a machine of the other rack when its power is cut, and the other way round.
func TestRacksThatShareASubnetAreOneLink(t *testing.T) {
	l := story.Home(t)
	machines := l.Topology.Machines()
	vips := map[string]netip.Addr{}
	for _, m := range machines {
		s := story.IPv4Alone(lab.LoadBalancer("shared-"+m.Name, ""))
		s.Annotations = map[string]string{"plinth.dev/home": m.Name}
		t.Cleanup(func() { must(t, l.RemoveOutside(context.Background(), s.Name)) })
		exposed, err := l.ExposeOutside(t.Context(), s, l.Topology.RouterAddress(lab.HomeGateway, story.Shelf))
		must(t, err)
		vips[m.Name] = exposed[0]
	}
	was := story.Owned(t, l, slices.Collect(maps.Values(vips)))
	for machine, vip := range vips {
		if was[vip] != machine {
			t.Errorf("%s answers for %s, which is to be on %s", was[vip], vip, machine)
		}
	}
	t.Cleanup(func() {
		must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology)))
		must(t, story.LinksUp(context.Background(), l))
	})
	upper := machines[2].Name
	must(t, l.ApplyInventory(t.Context(), ownRack(t, lab.Inventory(l.Topology), upper)))
	must(t, lab.Within(t.Context(), found, func(ctx context.Context) error {
		node, err := l.Kube.CoreV1().Nodes().Get(ctx, upper, metav1.GetOptions{})
		if err == nil && node.Labels["plinth.dev/rack"] != "upper" {
			err = fmt.Errorf("%s is in rack %q", upper, node.Labels["plinth.dev/rack"])
		}
		return err
	}))
	must(t, story.LinksUp(t.Context(), l))
	story.Stays(t, l, was)
	for _, dead := range []string{upper, machines[0].Name} {
		p := story.Packets(t, l, vips[dead])
		boot := story.Powerless(t, l, dead)
		must(t, p.Steady(t.Context(), time.Second))
		withinGap(t, dead+" without power", p, longestGap)
		boot()
		must(t, l.WaitReady(t.Context(), 30*time.Second))
		must(t, story.LinksUp(t.Context(), l))
		_, err := l.WaitOwner(t.Context(), lab.Laptop, vips[dead], dead) // which a Service asks for
		must(t, err)
	}
}

// ownRack is the inventory with its last machine in a rack of its own, called upper, on the subnets of the others.
func ownRack(t *testing.T, inventory, machine string) string {
	t.Helper()
	lines := strings.Split(inventory, "\n")
	subnets := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "      subnets: ") })]
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "{name: "+machine+",") })
	return strings.Join(slices.Insert(lines, at, "    - name: upper", "      row: a", subnets, "      machines:"), "\n")
}

// onBridge moves an address of a machine from an interface to a bridge over it, until that is gone.
func onBridge(t *testing.T, l *lab.Lab, machine, device string, addr netip.Addr) {
	t.Helper()
	const bridge = "br9"
	t.Cleanup(func() { must(t, netns.IP(l.Namespace(machine), "link del "+bridge)) })
	must(t, netns.IP(l.Namespace(machine), fmt.Sprintf("addr del %s/24 dev %s", addr, device), "link add "+bridge+" type bridge",
		"link set "+device+" master "+bridge, "link set "+bridge+" up", fmt.Sprintf("addr add %s/24 dev %s", addr, bridge)))
}
