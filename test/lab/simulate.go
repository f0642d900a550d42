package lab

import (
	"context"
	"net/netip"
	"slices"
	"strings"
)

// Forecast is what plinth simulate says of failures, as far as routers, clients and pods can tell
// whether it is so.
type Forecast struct {
	Lost []struct {
		Address netip.Addr
		Why     string
	}
	Changed []struct {
		Address                         netip.Addr
		LeftWithMachine, LeftWithRouter string
	}
	NextHops []struct {
		Router        string
		VIPs          []netip.Addr
		Before, After []HopShare
	}
	Pods []struct {
		From, To string // racks
		After    []PodWay
	}
	RacksWithoutMachine []string
}

// HopShare is a next hop of a router, with its percentage of the flows.
type HopShare struct {
	Machine string
	Percent int
}

// PodWay is a way of packets from pods of one rack to those of another; Reason is why there is none.
type PodWay struct{ Kind, Reason string }

// Simulate asks plinth what failures would do: rack/NAME, router/NAME, machine/NAME.
func (l *Lab) Simulate(ctx context.Context, fail ...string) (f Forecast, err error) {
	err = l.Ask(ctx, &f, "simulate", "--fail", strings.Join(fail, ","))
	return f, err
}

// LocalHops are the next hops of a router that are machines of its racks, in the family of a VIP.
func (l *Lab) LocalHops(router string, vip netip.Addr, machines []string) []netip.Addr {
	return l.Topology.localHops(router, vip, machines)
}

// Loses reports whether a VIP is lost.
func (f Forecast) Loses(vip netip.Addr) bool {
	for _, lost := range f.Lost {
		if lost.Address == vip {
			return true
		}
	}
	return false
}

// LeftWith are the machine and the router that all traffic to a VIP comes to depend on; empty: it does not, or did before.
func (f Forecast) LeftWith(vip netip.Addr) (machine, router string) {
	for _, c := range f.Changed {
		if c.Address == vip {
			return c.LeftWithMachine, c.LeftWithRouter
		}
	}
	return "", ""
}

// Hops are the machines that a router has for a VIP by the forecast; before are those that it
// had.
func (f Forecast) Hops(router string, vip netip.Addr, before []string) []string {
	if f.Loses(vip) {
		return nil
	}
	for _, c := range f.NextHops {
		if c.Router == router && slices.Contains(c.VIPs, vip) {
			var after []string
			for _, hop := range c.After {
				after = append(after, hop.Machine)
			}
			return after
		}
	}
	return before
}

// Shares returns the percentages of the flows to a VIP that a router gives to machines, before and after the failures; false: the
// forecast has no change of them.
func (f Forecast) Shares(router string, vip netip.Addr) (before, after map[string]int, changed bool) {
	for _, c := range f.NextHops {
		if c.Router == router && slices.Contains(c.VIPs, vip) {
			return sharesOf(c.Before), sharesOf(c.After), true
		}
	}
	return nil, nil, false
}

func sharesOf(hops []HopShare) map[string]int {
	out := map[string]int{}
	for _, h := range hops {
		out[h.Machine] = h.Percent
	}
	return out
}

// Cut reports whether no pod of one rack reaches one of the other, one way.
func (f Forecast) Cut(from, to string) bool {
	for _, p := range f.Pods {
		if p.From == from && p.To == to {
			return !slices.ContainsFunc(p.After, func(w PodWay) bool { return w.Kind != "unreachable" })
		}
	}
	return slices.Contains(f.RacksWithoutMachine, from) || slices.Contains(f.RacksWithoutMachine, to)
}
