package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/wait"
)

const (
	partitioned = 12 * time.Second
	askEvery    = 10 * time.Millisecond
	// healedFor is for how long one machine alone has answered for every VIP once a partition is over.
	healedFor = 10 * time.Second
	// patience is how long a word about a stranger is waited for.
	patience = 15 * time.Second
)

// partition cuts a machine and the laptop off from the rest of the home, and heals: for how long
// the machine, alone, went on answering the laptop ("ms-isolated-answers"), for how long nobody
// answered the phone ("ms-no-answer"), and for how long two machines answered it once all was well
// again ("ms-two-answer").
func (t *turn) partition() {
	t.b.Helper()
	ctx, owners := t.b.Context(), t.settled()
	owner, _ := busiest(owners)
	inside, err := t.AskFrom(ctx, lab.Laptop, askEvery, t.vips...)
	check(t.b, err)
	outside, err := t.AskFrom(ctx, lab.Phone, askEvery, t.vips...)
	check(t.b, err)
	severed := time.Now()
	check(t.b, t.SetSevered(ctx, lab.Apart([]string{owner, lab.Laptop}, t.Others(rack, owner, lab.Laptop))...))
	t.until(severed.Add(partitioned))
	alone := inside.Asked()
	healed := time.Now()
	check(t.b, t.SetSevered(ctx))
	check(t.b, lab.Within(ctx, longest, func(context.Context) error {
		if last := lastTwice(outside.Asked(), healed); time.Since(last) < healedFor {
			return fmt.Errorf("two machines answered %s ago", time.Since(last))
		}
		return nil
	}))
	all := outside.Stop()
	inside.Stop()
	isolated := lastAnswer(alone).Sub(severed)
	if isolated > partitioned-time.Second {
		t.tell("the isolated owner answered as long as it was isolated")
	}
	nobody := longestSilence(all, severed, healed)
	twice := lastTwice(all, healed).Sub(healed)
	t.tell("%s was alone with the laptop for %s: it answered for %s; the phone had no answer for %s; after the end two answered for %s",
		owner, partitioned, isolated.Round(time.Millisecond), nobody.Round(time.Millisecond), twice.Round(time.Millisecond))
	t.measured.Add("ms-isolated-answers", ms(isolated))
	t.measured.Add("ms-no-answer", ms(nobody))
	t.measured.Add("ms-two-answer", ms(twice))
	t.settled()
}

func lastAnswer(asked []lab.Asked) (last time.Time) {
	for _, one := range asked {
		for _, a := range one.Answers {
			if at := one.At.Add(a.Took); at.After(last) {
				last = at
			}
		}
	}
	return last
}

// lastTwice is when two machines answered the same question for the last time, or from.
func lastTwice(asked []lab.Asked, from time.Time) time.Time {
	for _, one := range asked {
		if len(one.MACs()) > 1 && one.At.After(from) {
			from = one.At
		}
	}
	return from
}

// longestSilence is the longest time in which no question for one of the addresses was answered.
func longestSilence(asked []lab.Asked, from, to time.Time) (longest time.Duration) {
	last := map[netip.Addr]time.Time{}
	for _, one := range asked {
		if one.At.Before(from) || one.At.After(to) {
			continue
		}
		if last[one.Address].IsZero() || len(one.Answers) > 0 {
			last[one.Address] = one.At
		}
		longest = max(longest, one.At.Sub(last[one.Address]))
	}
	return longest
}

// conflict has the laptop take a VIP, as if somebody had typed it in: how long it takes until it
// is named ("ms-conflict-named"; no figure where it is not within patience).
func (t *turn) conflict() {
	t.b.Helper()
	ctx := t.b.Context()
	t.settled()
	vip := t.vips[0]
	macs, err := t.MACs()
	check(t.b, err)
	var stranger lab.MAC
	for m, host := range macs {
		if host == lab.Laptop {
			stranger = m
		}
	}
	begun := time.Now()
	check(t.b, t.TakeAddress(lab.Laptop, vip))
	waiting, stop := context.WithTimeout(ctx, patience)
	err = wait.Until(waiting, 20*time.Millisecond, func(ctx context.Context) error {
		yes, err := t.names(ctx, t.services[vip], stranger)
		if err == nil && !yes {
			err = fmt.Errorf("nobody names %s", stranger)
		}
		return err
	})
	took := time.Since(begun)
	stop()
	if err != nil {
		t.tell("a stranger has %s: %v within %s", vip, err, patience)
	} else {
		t.tell("a stranger has %s: named after %s", vip, took.Round(time.Millisecond))
		t.measured.Add("ms-conflict-named", ms(took))
	}
	check(t.b, t.GiveBackAddress(lab.Laptop, vip))
	check(t.b, t.ForgetNeighbours(ctx, lab.Phone))
}

// asked asks for a VIP, and for an address of its owner's kernel beside it: the times of the answers
// ("µs-p50-VIP", "µs-p99-VIP", "µs-p50-kernel", "µs-p99-kernel").
func (t *turn) asked() {
	t.b.Helper()
	const questions = 3000
	owners := t.settled()
	vip := t.vips[0]
	own := t.Topology.MachineAddress(owners[vip]).V4
	if *ipv6 {
		own = t.Topology.MachineAddress(owners[vip]).V6
	}
	a, err := t.AskFrom(t.b.Context(), lab.Laptop, 3*time.Millisecond, vip, own)
	check(t.b, err)
	check(t.b, lab.Within(t.b.Context(), time.Minute, func(context.Context) error {
		if n := len(a.Asked()); n < 2*questions {
			return fmt.Errorf("%d questions", n)
		}
		return nil
	}))
	took := map[netip.Addr][]time.Duration{}
	for _, one := range a.Stop() {
		for _, answer := range one.Answers {
			took[one.Address] = append(took[one.Address], answer.Took)
		}
	}
	for name, addr := range map[string]netip.Addr{"VIP": vip, "kernel": own} {
		all := slices.Sorted(slices.Values(took[addr]))
		t.tell("%d answers for %s (%s): median %s, 99th percentile %s", len(all), addr, name, all[len(all)/2], all[len(all)*99/100])
		t.measured.Add("µs-p50-"+name, float64(all[len(all)/2].Microseconds()))
		t.measured.Add("µs-p99-"+name, float64(all[len(all)*99/100].Microseconds()))
	}
}
