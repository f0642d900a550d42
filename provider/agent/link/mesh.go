package link

import (
	"context"
	"net/netip"
	"reflect"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/mesh"
	"plinth.dev/plinth/uptime"
)

// meshed is the configuration that the mesh was given last.
type meshed struct {
	configs []mesh.Config
	due     time.Duration // when that is tried again; 0: it worked
	failure string
}

// setMesh sets the machines of the plans in the mesh. It returns when that is to be tried again; 0: it
// worked.
func (l *Links) setMesh(ctx context.Context, plans []advertise.LinkPlan) (next time.Duration) {
	var all []mesh.Config
	for _, p := range plans {
		all = append(all, meshConfig(p, l.self))
	}
	now := uptime.Now()
	if left := l.meshed.due - now; reflect.DeepEqual(all, l.meshed.configs) && (l.meshed.due == 0 || left > 0) {
		return max(left, 0)
	}
	l.meshed.configs, l.meshed.due = all, 0
	err := l.mesh.Set(ctx, all)
	if ctx.Err() != nil {
		return 0
	}
	l.meshed.failure = tellNew(l.log, "cannot follow the machines of a link", l.meshed.failure, err)
	if err == nil {
		return 0
	}
	l.meshed.due = now + retryEvery
	return retryEvery
}

func meshConfig(p advertise.LinkPlan, self string) mesh.Config {
	config := mesh.Config{
		Subnet: p.Link.Subnet, Self: p.Self, Witness: p.Link.Witness, Leaving: p.Leaving != "", RestartTime: HandOver,
	}
	config.Timers.Interval, config.Timers.Multiplier = p.Link.Interval, p.Link.Multiplier
	for _, m := range p.Link.Machines {
		if m.Name != self {
			config.Machines = append(config.Machines, mesh.Machine{Name: m.Name, Addr: m.Addr})
		}
	}
	return config
}

func meshOf(all []mesh.LinkState, subnet netip.Prefix) mesh.LinkState {
	state, _ := inventory.Find(all, func(s mesh.LinkState) bool { return s.Subnet == subnet })
	return state
}
