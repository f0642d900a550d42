package onlink

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab"
)

const (
	rate = 1000 // packets a second
	// watched is for how long frames count as sent because of a cut.
	watched = 6 * time.Second
)

// cuts has the owner of a VIP lose its power, again and again: the gaps ("ms-gap-p50", "ms-gap-most";
// "ms-gap-most-net" without what this machine itself stood still), and frames that announced each VIP that
// moved ("frames-a-VIP-that-moved") and all that did not ("frames-of-others"), the median of a cut.
func (t *turn) cuts() {
	var gaps, net []time.Duration
	for i := range *cuts {
		owners := t.settled()
		vip := t.vips[i%len(t.vips)]
		gap, still, frames := t.cut(vip, owners)
		gaps, net = append(gaps, gap), append(net, gap-still)
		t.tell("cut %d of %d, of %s, owner of %s: gap %s, of which this machine stood still for %s; announcements: %s",
			i+1, *cuts, owners[vip], vip, gap.Round(time.Millisecond), still.Round(time.Millisecond), frames)
		t.measured.Add("frames-a-VIP-that-moved", frames.moved)
		t.measured.Add("frames-of-others", float64(frames.others))
	}
	slices.Sort(gaps)
	slices.Sort(net)
	t.tell("gaps: median %s, longest %s; without what this machine stood still: median %s, longest %s",
		gaps[len(gaps)/2], gaps[len(gaps)-1], net[len(net)/2], net[len(net)-1])
	t.measured.Add("ms-gap-p50", ms(gaps[len(gaps)/2]))
	t.measured.Add("ms-gap-most", ms(gaps[len(gaps)-1]))
	t.measured.Add("ms-gap-most-net", ms(net[len(net)-1]))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// announced is how often machines that were left announced VIPs unasked.
type announced struct {
	moved  float64 // each VIP that had to move, at the mean
	others int     // all others together
}

func (a announced) String() string {
	return fmt.Sprintf("%.1f of each VIP that moved, %d of others", a.moved, a.others)
}

// cut has the owner of a VIP lose its power until another one serves, and brings it back.
func (t *turn) cut(vip netip.Addr, owners map[netip.Addr]string) (gap, still time.Duration, frames announced) {
	t.b.Helper()
	ctx, owner := t.b.Context(), owners[vip]
	p := t.phone(vip)
	defer p.Stop()
	s, err := t.Sniff(ctx, t.Others(rack, owner, lab.Phone, lab.Laptop, lab.HomeGateway)...)
	check(t.b, err)
	defer s.Stop()
	at := time.Now()
	check(t.b, t.KillMachine(ctx, owner))
	check(t.b, p.Steady(ctx, time.Second))
	t.until(at.Add(watched))
	r := p.Stop()
	gap, still = r.Longest, p.Stalled(r.FirstLoss, r.LastLoss)
	frames = t.announcements(s, owners, owner)
	t.restore(owner)
	return gap, still, frames
}

// phone sends packets to a VIP's echo, and has lost none for a second.
func (t *turn) phone(vip netip.Addr) *lab.Prober {
	t.b.Helper()
	p, err := t.ProbeUDPFrom(t.b.Context(), lab.Phone, net.JoinHostPort(vip.String(), "7"), rate)
	check(t.b, err)
	check(t.b, p.Steady(t.b.Context(), time.Second))
	p.Forget()
	return p
}

func (t *turn) announcements(s *lab.Sniffer, owners map[netip.Addr]string, dead string) announced {
	var a announced
	moved, frames := 0, 0
	for vip, owner := range owners {
		n := len(s.Frames(func(f lab.Frame) bool {
			return f.Address == vip && (f.Kind == lab.ARPAnnounced || f.Kind == lab.NAAnnounced)
		}))
		if owner == dead {
			moved, frames = moved+1, frames+n
			continue
		}
		a.others += n
	}
	a.moved = float64(frames) / float64(max(1, moved))
	return a
}

// restore has a machine boot: what ran on it does not remember.
func (t *turn) restore(machine string) {
	t.b.Helper()
	check(t.b, t.endOn(t.b.Context(), machine, syscall.SIGKILL))
	check(t.b, t.ReviveMachine(t.b.Context(), machine))
	check(t.b, t.startOn(t.b.Context(), machine))
}

// until waits for a point in time: what happens up to it is what is measured.
func (t *turn) until(at time.Time) {
	select {
	case <-t.b.Context().Done():
	case <-time.After(time.Until(at)):
	}
}
