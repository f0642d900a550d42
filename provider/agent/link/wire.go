package link

import (
	"net/netip"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/onlink"
	"plinth.dev/plinth/uptime"
)

// defaultWireGrace is for how long a wire may not work until the machine asks others to own what it could. Where
// the whole link is gone BFD tells them earlier, and one that is back before that moves nothing. What is left are
// links on which all works but packet sockets.
const defaultWireGrace = time.Second

// withWires are the plans, where a wire that does not work is a reason to leave. next is when one that has
// just begun not to work is to be looked at again; 0: none has.
func (l *Links) withWires(all []onlink.LinkState) (plans []advertise.LinkPlan, next time.Duration) {
	now := uptime.Now()
	plans = slices.Clone(l.now)
	broken := map[netip.Prefix]time.Duration{}
	for i := range plans {
		plan := &plans[i]
		reason := wireOf(all, plan.Link.Subnet).Reason
		if reason == "" {
			continue
		}
		since, known := l.brokenSince[plan.Link.Subnet]
		if !known {
			since = now
		}
		broken[plan.Link.Subnet] = since
		if left := since + l.wireGrace - now; left > 0 {
			next = sooner(next, left)
		} else {
			plan.Leaving = reason
		}
	}
	l.brokenSince = broken
	return plans, next
}

func wireConfig(reached Reached, self string) onlink.Config {
	config := onlink.Config{Link: onlink.Link{Subnet: reached.plan.Link.Subnet, Self: reached.plan.Self}, AnnounceEvery: reached.plan.Link.AnnounceEvery, Claims: reached.claims}
	for _, m := range reached.plan.Link.Machines {
		if m.Name != self {
			config.Machines = append(config.Machines, m.Addr)
		}
	}
	for _, v := range reached.plan.VIPs {
		if _, claimed := slices.BinarySearchFunc(reached.claims, v.VIP, netip.Addr.Compare); !claimed {
			config.Watched = append(config.Watched, v.VIP)
		}
	}
	return config
}

func wireOf(all []onlink.LinkState, subnet netip.Prefix) onlink.LinkState {
	state, _ := inventory.Find(all, func(s onlink.LinkState) bool { return s.Subnet == subnet })
	return state
}

// withReason refuses all VIPs of a link for what keeps the machine off it.
func withReason(p advertise.LinkPlan, reason lb.Reason) (all []advertise.Refusal) {
	for _, o := range p.Offers {
		all = append(all, advertise.Refusal{Service: o.Service, VIP: o.VIP, Reason: reason})
	}
	return all
}
