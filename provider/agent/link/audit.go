package link

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/wake"
)

const (
	// auditEvery is how often the machine that would follow a VIP's owner asks on the wire who has it.
	auditEvery = 30 * time.Second
	// auditAgain is how long after that what it found has to be so still: owners move.
	auditAgain = time.Second
	// auditsAtOnce is how many VIPs are asked about at a time: each takes 0.3 to 0.6 s, and three frames to everybody.
	auditsAtOnce = 8
)

// audit asks on the wire, again and again, who has the VIPs that this machine is to look for.
// It finds what no plan knows: access points, virtual switches and inspection that swallow ARP or
// neighbour discovery, and faults of our own.
func (l *Links) audit(ctx context.Context) {
	for {
		if !wake.After(ctx, auditEvery) {
			return
		}
		suspects := l.findWrong(ctx)
		if len(suspects) > 0 {
			if !wake.After(ctx, auditAgain) {
				return
			}
			again := l.findWrong(ctx)
			maps.DeleteFunc(suspects, func(vip netip.Addr, p lb.LinkProblem) bool { return again[vip] != p })
		}
		l.shown.mu.Lock()
		same := maps.Equal(l.shown.audited, suspects)
		l.shown.audited = suspects
		l.shown.mu.Unlock()
		if !same {
			l.changed()
		}
	}
}

// findWrong asks for each VIP that this machine is to look for. An owner whose agent is away for a moment answers for nothing
// meanwhile.
func (l *Links) findWrong(ctx context.Context) map[netip.Addr]lb.LinkProblem {
	type question struct {
		of Reached
		advertise.Owned
	}
	var all []question
	for _, r := range l.Reached() {
		for _, o := range r.step.Owners {
			if o.Auditor == r.self {
				all = append(all, question{r, o})
			}
		}
	}
	var mu sync.Mutex
	wrong := map[netip.Addr]lb.LinkProblem{}
	workqueue.ParallelizeUntil(ctx, auditsAtOnce, len(all), func(i int) {
		reached, owned := all[i].of, all[i].Owned
		macs, err := l.wire.AskAll(ctx, reached.plan.Link.Subnet, owned.VIP, probeTries, probeEvery)
		if err != nil {
			return // the link says that it does not work
		}
		problem, ok := l.judge(reached, owned.VIP, owned.Owner, macs)
		if away := reached.mesh.Standing(owned.Owner) != advertise.Up; ok || away && problem.Reason == lb.NotAnsweredOnWire {
			return // as is to be expected
		}
		mu.Lock()
		defer mu.Unlock()
		wrong[owned.VIP] = problem
	})
	return wrong
}

// findings are the problems that audits found, sorted by VIP.
func (l *Links) findings() (all []lb.LinkProblem) {
	if l == nil {
		return nil
	}
	l.shown.mu.Lock()
	defer l.shown.mu.Unlock()
	for _, vip := range slices.SortedFunc(maps.Keys(l.shown.audited), netip.Addr.Compare) {
		all = append(all, l.shown.audited[vip])
	}
	return all
}

// judge compares who answers for a VIP with who is to; ok: it is the owner alone. Of several machines that answer all are named:
// which of them is the owner may change with who was heard last.
func (l *Links) judge(reached Reached, vip netip.Addr, owner string, macs []onlink.MAC) (problem lb.LinkProblem, ok bool) {
	problem = lb.LinkProblem{On: vip.String(), Reason: lb.NotAnsweredOnWire, Detail: owner}
	var machines []string
	for _, mac := range macs {
		addr, known := l.wire.Machine(reached.plan.Link.Subnet, mac)
		if !known {
			return lb.LinkProblem{On: vip.String(), Reason: lb.AddressConflict, Detail: mac.String()}, false
		}
		machines = append(machines, machineAt(reached.plan, addr))
	}
	machines = inventory.SortedOnce(machines)
	if len(machines) > 0 && !slices.Equal(machines, []string{owner}) {
		return lb.LinkProblem{On: vip.String(), Reason: lb.AnsweredByOther, Detail: strings.Join(machines, ",")}, false
	}
	return problem, len(machines) > 0
}
