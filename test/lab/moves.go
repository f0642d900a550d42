package lab

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// RouterMoves returns what routers change about their routes to VIPs, from now on, until it
// is asked, in the order of time. A route that a router has already comes first, at no time.
func (l *Lab) RouterMoves(ctx context.Context, vips []netip.Addr) (asked func() map[netip.Addr][]Change, err error) {
	moved, followed := map[netip.Addr][]Change{}, map[netip.Addr][]func() []Change{}
	for _, vip := range vips {
		for _, r := range l.Topology.Routers {
			changes, err := l.Changes(ctx, r.Name, vip)
			if err != nil {
				return nil, err
			}
			followed[vip] = append(followed[vip], changes)
			family := "-4"
			if vip.Is6() {
				family = "-6"
			}
			now, err := netns.Output(ctx, l.Namespace(r.Name), "ip", "-o", family, "route", "show", vip.String())
			if err != nil {
				return nil, err
			}
			if now != "" {
				moved[vip] = append(moved[vip], Change{Host: r.Name, Text: strings.TrimSpace(now)})
			}
		}
	}
	return func() map[netip.Addr][]Change {
		for vip, all := range followed {
			for _, changes := range all {
				moved[vip] = append(moved[vip], changes()...)
			}
			slices.SortStableFunc(moved[vip], func(a, b Change) int { return a.At.Compare(b.At) })
		}
		return moved
	}, nil
}

// cutTime is how soon after a router has moved a connection that it moved is reset: by its
// next packet, on a busy machine.
const cutTime = 300 * time.Millisecond

// NotCut is when those lost requests were sent whose connection was not under way when a
// router moved. One that was meets a machine that does not know it, whose kernel resets it.
func (r Report) NotCut(moves []Change) []time.Time {
	return slices.DeleteFunc(slices.Clone(r.Losses), func(sent time.Time) bool {
		return slices.ContainsFunc(r.Cuts, func(c Cut) bool {
			return c.Sent.Equal(sent) && slices.ContainsFunc(moves, func(m Change) bool {
				return c.Begun.Before(m.At) && c.Reset.After(m.At.Add(-cutTime)) && c.Reset.Before(m.At.Add(cutTime))
			})
		})
	})
}

// NotMoved is when those lost requests were sent that no move of a router explains: they were
// neither cut nor sent back while two routers sent to each other. FRR tells other routers of a
// route some 10 ms before its kernel has it, in which another one's kernel may be faster.
func (r Report) NotMoved(moves []Change) []time.Time {
	loops := loopsOf(moves)
	return slices.DeleteFunc(r.NotCut(moves), func(sent time.Time) bool {
		return slices.ContainsFunc(r.SentBack, sent.Equal) && slices.ContainsFunc(loops, func(l loop) bool {
			return sent.After(l.from.Add(-loopSkew)) && sent.Before(l.to.Add(loopSkew))
		})
	})
}

// loopSkew is how late, on a busy machine, a request leaves, or a change of a kernel is heard of.
const loopSkew = 300 * time.Millisecond

// loop is a time in which two routers sent what is for one VIP to each other.
type loop struct{ from, to time.Time }

// loopsOf follows where routers send, by the changes of their kernels.
func loopsOf(moves []Change) (loops []loop) {
	to := map[string]string{} // router by router
	looped := func() bool {
		for router, other := range to {
			if to[other] == router {
				return true
			}
		}
		return false
	}
	was := false
	for _, m := range moves {
		to[m.Host] = m.router()
		is := looped()
		switch {
		case is && !was:
			loops = append(loops, loop{m.At, m.At})
		case was:
			loops[len(loops)-1].to = m.At
		}
		was = is
	}
	return loops
}

// router is the one that the route leads to; empty: to a machine, or nowhere.
func (c Change) router() string {
	_, after, leads := strings.Cut(c.Text, " dev "+linkInterface(""))
	if !leads || strings.HasPrefix(c.Text, "Deleted ") {
		return ""
	}
	name, _, _ := strings.Cut(after, " ")
	return name
}
