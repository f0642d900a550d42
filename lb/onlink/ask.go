package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/uptime"
	"plinth.dev/plinth/wake"
)

// Unavailable is the error of a question on a link that does not work, or is not set.
type Unavailable struct {
	Subnet netip.Prefix
	Reason lb.Reason // empty: the link is not set
}

func (u Unavailable) Error() string {
	if u.Reason == "" {
		return fmt.Sprintf("link %v is not set", u.Subnet)
	}
	return fmt.Sprintf("link %v: %s", u.Subnet, u.Reason)
}

// waiter waits for the hosts that have an address.
type waiter struct {
	addr netip.Addr
	from chan MAC
}

// maxAnswers is the number of answers to one question that are kept.
const maxAnswers = 16

// take hands over an answer to the question.
func (w *waiter) take(p packet) {
	if p.answers && p.asserts == w.addr {
		select {
		case w.from <- p.mac:
		default:
		}
	}
}

// Ask asks on the link for the host that has an address, at most the given number of times, and returns the
// first that answers; empty: none does. This machine's own answers do not count. After the
// last question it waits once more; and where no machine is known to have the MAC that answers for a VIP, until the machines have been
// asked for theirs. The error is the context's or [Unavailable].
func (r *Responder) Ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]MAC, error) {
	return r.ask(ctx, subnet, addr, tries, every, inquiry{})
}

// AskAll asks as [Responder.Ask] does, but does all its tries and returns all hosts that answer, sorted.
func (r *Responder) AskAll(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]MAC, error) {
	return r.ask(ctx, subnet, addr, tries, every, inquiry{all: true})
}

// Probe asks as [Responder.Ask] does, but without this machine's address: by an ARP probe (RFC 5227, section
// 2.1.1), of which no cache learns anything, or by the solicitation of duplicate address detection
// (RFC 4862, section 5.4.2). A host that has an address of IPv6 answers that to all hosts and overrides
// the entries of their caches (RFC 4861, section 7.2.4): a caller that only wants to know takes [Responder.Ask].
func (r *Responder) Probe(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration) ([]MAC, error) {
	return r.ask(ctx, subnet, addr, tries, every, inquiry{anonymous: true})
}

type inquiry struct {
	all       bool // not only the first answer
	anonymous bool
}

func (r *Responder) ask(ctx context.Context, subnet netip.Prefix, addr netip.Addr, tries int, every time.Duration, inquiry inquiry) ([]MAC, error) {
	link := r.link(subnet)
	if link == nil || !subnet.Contains(addr) && (subnet.Addr().Is4() || !addr.IsLinkLocalUnicast()) {
		return nil, Unavailable{Subnet: subnet}
	}
	answers, err := link.ask(ctx, addr, tries, every, inquiry)
	if err == nil && link.doubts(addr, answers) {
		wake.After(ctx, suspicion)
		err = ctx.Err()
	}
	return answers, err
}

func (l *link) ask(ctx context.Context, addr netip.Addr, tries int, every time.Duration, inquiry inquiry) ([]MAC, error) {
	waiting := &waiter{addr: addr, from: make(chan MAC, maxAnswers)}
	l.wait(waiting)
	defer l.stopWaiting(waiting)
	var answers []MAC
	for range tries {
		if err := l.question(waiting, inquiry.anonymous); err != nil {
			return answers, err
		}
		if err := waiting.collect(ctx, every, inquiry.all, &answers); err != nil || len(answers) > 0 && !inquiry.all {
			return answers, err
		}
	}
	return answers, nil
}

// doubts asks the machines for their MACs where a stranger seems to have a VIP, and reports whether they may still answer: it may be
// one that was not there when it was asked last. For a stranger that stays they are asked again after macRefresh.
func (l *link) doubts(addr netip.Addr, answers []MAC) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(answers, func(mac MAC) bool { _, known := l.machineWith(mac); return !known })
	if i < 0 || l.vips[addr] == nil || len(l.machines) == 0 {
		return false
	}
	now := uptime.Now()
	if (answers[i] != l.stranger || now-l.doubted >= macRefresh) && l.doubtMachines(now) {
		l.stranger = answers[i]
	}
	return now-l.doubted < suspicion
}

// collect takes answers in for a while, or until the first.
func (w *waiter) collect(ctx context.Context, patience time.Duration, all bool, answers *[]MAC) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case mac := <-w.from:
			if at, found := slices.BinarySearchFunc(*answers, mac, compareMACs); !found {
				*answers = slices.Insert(*answers, at, mac)
			}
			if !all {
				return nil
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *link) wait(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[w] = true
	l.tune()
}

func (l *link) stopWaiting(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, w)
	l.tune()
}

// question sends the waiter's question.
func (l *link) question(waiter *waiter, anonymous bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket == nil || l.reason != "" {
		return Unavailable{Subnet: l.config.Subnet, Reason: l.reason}
	}
	self := l.config.Self
	if anonymous && self.Is4() {
		self = netip.IPv4Unspecified()
	} else if anonymous {
		self = netip.IPv6Unspecified()
	}
	l.send(question(l.on.mac, self, waiter.addr, MAC{}))
	return nil
}

// Machine returns which of the machines of a link has a MAC; false: none is known to.
func (r *Responder) Machine(subnet netip.Prefix, mac MAC) (netip.Addr, bool) {
	link := r.link(subnet)
	if link == nil {
		return netip.Addr{}, false
	}
	link.mu.Lock()
	defer link.mu.Unlock()
	return link.machineWith(mac)
}
