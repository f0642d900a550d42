package onlink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// reasonTold is how soon the API server knows why a machine does not answer: its condition changes once in
// 30 seconds at most.
const reasonTold = 45 * time.Second

// TestWhatKeepsAVIPFromItsLinkIsKnownFarFromItsMachines takes one machine after another off the link, each in another
// way, and asks status and why, which learn of it by the API server alone.
func TestWhatKeepsAVIPFromItsLinkIsKnownFarFromItsMachines(t *testing.T) {
	l := story.Home(t)
	vip := story.Outside(t, l, "asked")[0]
	of := func(n int) string { return l.Topology.Machines()[n].Name }
	for _, c := range []struct {
		reason, machine string
		cut, mend       func(machine string) error
	}{
		{"NoCarrier", of(0), l.Unplug, l.PlugIn},
		{"WitnessSilent", of(1), func(m string) error {
			return l.SetSevered(context.Background(), lab.Apart([]string{m}, l.Others(story.Shelf, m))...)
		}, func(string) error { return l.SetSevered(context.Background()) }},
		{"NoInterface", of(2), func(m string) error { return moveAddress(l, m, "del") }, func(m string) error { return moveAddress(l, m, "add") }},
		{"ProxyRulesLost", of(0), func(m string) error { return l.FlushRules(context.Background(), m) }, func(string) error { return l.WriteRulesAnew(context.Background()) }},
	} {
		t.Cleanup(func() { _ = c.mend(c.machine) })
		must(t, c.cut(c.machine))
		must(t, lab.Within(t.Context(), reasonTold, func(ctx context.Context) error {
			return errors.Join(story.InStatus(ctx, l, c.machine, c.reason), story.BrokenAt(ctx, l, "vip/"+vip.String(), "on the link", c.machine+": "),
				story.BrokenAt(ctx, l, "vip/"+vip.String(), "on the link", c.reason), story.BrokenAt(ctx, l, "node/"+c.machine, "fabric", c.reason))
		}))
		must(t, c.mend(c.machine))
		must(t, story.LinksUp(t.Context(), l))
	}
	for _, c := range []struct {
		reason      string
		take, leave func() error
	}{
		{"AddressConflict", func() error { return l.TakeAddress(lab.Laptop, vip) }, func() error { return l.GiveBackAddress(lab.Laptop, vip) }},
		{"AddressOnInterface", func() error { return onLoopback(l, of(0), vip, "add") }, func() error { return onLoopback(l, of(0), vip, "del") }},
	} {
		t.Cleanup(func() { _ = c.leave() })
		must(t, c.take())
		must(t, lab.Within(t.Context(), reasonTold, func(ctx context.Context) error {
			return errors.Join(story.InStatus(ctx, l, "default/asked", c.reason), story.BrokenAt(ctx, l, "svc/default/asked", "answered", c.reason))
		}))
		must(t, c.leave())
	}
}

// moveAddress takes a machine's address of IPv4 away from its interface on the story.Shelf, or gives it back with the
// default route that goes with it.
func moveAddress(l *lab.Lab, machine, how string) error {
	device, at := lab.RackInterface, l.Topology.MachineAddress(machine).V4
	lines := []string{fmt.Sprintf("addr %s %s/24 dev %s", how, at, device)}
	if how == "add" {
		lines = append(lines, fmt.Sprintf("route replace default via %s", l.Topology.RouterAddress(lab.HomeGateway, story.Shelf).V4))
	}
	return netns.IP(l.Namespace(machine), lines...)
}

func onLoopback(l *lab.Lab, machine string, vip netip.Addr, how string) error {
	return netns.IP(l.Namespace(machine), fmt.Sprintf("addr %s %s dev lo", how, lab.VIPPrefix(vip)))
}
