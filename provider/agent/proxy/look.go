package proxy

import (
	"context"
	"slices"
	"time"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/kubeproxy"
)

const (
	// lookEvery is how often some of kube-proxy's rules are looked for again.
	lookEvery = time.Second
	// goneAfter is in how many looks in a row rules have to be missing to be gone: kube-proxy makes changes that come
	// together known a second later, and may have heard of one sooner than the agent.
	goneAfter = 3
	// lookAtOnce is how many are looked for at a time where a lookup in the kernel is enough: all of 3,000 within half a
	// minute. What took one of them most likely took all, and that is seen at once.
	lookAtOnce = 100
	// connectAtOnce is how many where each takes a connection to an endpoint.
	connectAtOnce = 1
)

// lookout looks for rules again that were there. A firewall that is loaded anew takes kube-proxy's rules away with its
// own, and kube-proxy's mode nftables does not notice before a Service changes. Its methods are for one goroutine.
type lookout struct {
	prober  Prober
	passing []advertise.Question // sorted by VIP and Service
	next    int                  // of these
	seen    map[advertise.Question]bool
	missing []advertise.Question // that were seen, at the last looks
	misses  int                  // of these
	there   []advertise.Question // that were seen for the first time, since all were last looked for
}

// update sets the rules to look for. A question that changed counts as not seen yet.
func (l *lookout) update(all []advertise.Question) {
	passing, seen := make([]advertise.Question, len(all)), make(map[advertise.Question]bool, len(all))
	for i, q := range all {
		was := q.Seen
		if q.Seen = false; was || l.seen[q] {
			seen[q] = true
		}
		passing[i] = q
	}
	if l.next < len(l.passing) {
		l.next, _ = slices.BinarySearchFunc(passing, l.passing[l.next], advertise.Question.Compare)
	}
	l.passing, l.seen = passing, seen
	l.missing = slices.DeleteFunc(l.missing, func(q advertise.Question) bool { return !seen[q] })
}

// look looks for the next few, or for those that were missing, and returns which rules are there for the first time, once all were
// looked for, and which are gone.
func (l *lookout) look(ctx context.Context, with kubeproxy.Round) (there, gone []advertise.Question) {
	before := l.next
	switch {
	case len(l.missing) > 0:
		l.missing = l.absent(ctx, with, l.missing)
		l.misses++
	case len(l.absent(ctx, with, l.turn(with))) > 0:
		l.missing, l.misses = l.absent(ctx, with, l.passing), 1
	}
	if l.misses >= goneAfter {
		gone, l.missing, l.misses = l.missing, nil, 0
	}
	if l.next < before || l.next == len(l.passing) {
		there, l.there = l.there, nil
	}
	return there, gone
}

// turn returns the next rules to look for.
func (l *lookout) turn(with kubeproxy.Round) (some []advertise.Question) {
	count := len(l.passing)
	if count == 0 {
		return nil
	}
	most := lookAtOnce
	if l.prober.Connects(with) {
		most = connectAtOnce
	}
	for range min(most, count) {
		l.next %= count
		some = append(some, l.passing[l.next])
		l.next++
	}
	return some
}

// absent returns those of some questions whose rules were seen before, and are gone.
func (l *lookout) absent(ctx context.Context, with kubeproxy.Round, some []advertise.Question) (all []advertise.Question) {
	for part := range slices.Chunk(some, askTogether) {
		answers := l.prober.Ask(ctx, with, part)
		if ctx.Err() != nil {
			return nil // what was not asked counts as absent
		}
		for _, answer := range answers {
			switch {
			case answer.Evidence == advertise.Present && !l.seen[answer.Question]:
				l.seen[answer.Question] = true
				l.there = append(l.there, answer.Question)
			case answer.Evidence == advertise.Absent && l.seen[answer.Question]:
				all = append(all, answer.Question)
			}
		}
	}
	return all
}
