package link

import (
	"log/slog"
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb/advertise"
)

// Witnesses are the machine's default gateways, which are the witness of the links that they are on, where the inventory
// names none. It is for one goroutine.
type Witnesses struct {
	log   *slog.Logger
	Find  findGateways
	known map[netip.Prefix][]netip.Addr // by link
}

// findGateways finds the machine's default gateways on a link: [kernel.GatewaysOn].
type findGateways = func(subnet netip.Prefix, self netip.Addr) ([]netip.Addr, error)

// NewWitnesses returns witnesses of which none was looked for.
func NewWitnesses(log *slog.Logger, find findGateways) *Witnesses {
	return &Witnesses{log: log, Find: find, known: map[netip.Prefix][]netip.Addr{}}
}

// Fill returns plans in which links have their witnesses.
func (w *Witnesses) Fill(planned []advertise.LinkPlan) []advertise.LinkPlan {
	plans := slices.Clone(planned)
	for i := range plans {
		l := &plans[i].Link
		if _, known := w.known[l.Subnet]; !known {
			w.known[l.Subnet] = w.on(plans[i])
		}
		if len(l.Witness) == 0 {
			l.Witness = w.known[l.Subnet]
		}
	}
	return plans
}

// Refresh looks for the default gateways again, and reports whether they are others.
func (w *Witnesses) Refresh(plans []advertise.LinkPlan) (changed bool) {
	for _, p := range plans {
		found := w.on(p)
		changed = changed || !slices.Equal(found, w.known[p.Link.Subnet])
		w.known[p.Link.Subnet] = found
	}
	return changed
}

// on are the machine's default gateways on a link. One whose default route is gone stays that until there is another: the
// route goes with the interface, and is back some time after it.
func (w *Witnesses) on(plan advertise.LinkPlan) []netip.Addr {
	found, err := w.Find(plan.Link.Subnet, plan.Self)
	if err != nil {
		w.log.Warn("cannot find the default gateways", "subnet", plan.Link.Subnet, "err", err)
	}
	if len(found) == 0 {
		return w.known[plan.Link.Subnet]
	}
	return found
}
