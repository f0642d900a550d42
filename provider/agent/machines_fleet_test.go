//go:build fleet

package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/wake"
)

// fleetConnects is how long sessions take to come up: GoBGP's pause before it first connects.
const fleetConnects = 2 * time.Second

// fleetAgent is an agent as it is, with its own client, watches and writes, and its own loop. Its routers are a fake, and so is its
// routing table. It asks no kube-proxy, answers for nothing on links, keeps no state on disk and is not asked for its status:
// none of these concerns the API server, but for the owners of VIPs on links, which nobody writes here. Of this machine it reads
// kernel settings, as of its own.
type fleetAgent struct {
	*Agent
	fake *fleetRouters
}

func newFleetAgent(config *rest.Config, node string, carried *fleetTraffic) (fleetWatcher, error) {
	client, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	machine := fleetAgent{
		Agent: New(Options{NodeName: node, Namespace: "kube-system", Client: fleetClient{client, carried}, Log: slog.Default()}),
		fake:  &fleetRouters{changed: make(chan struct{}, 1)},
	}
	machine.outside.speaker, machine.outside.table = machine.fake, fleetTable{}
	machine.routers.down, machine.routers.inherited = map[netip.Addr]bool{}, map[netip.Addr]bool{}
	return machine, nil
}

// run is Run of an agent that finds no state and no kernel.
func (a fleetAgent) run(ctx context.Context) {
	a.begin(ctx)
	a.schedule.timer = time.NewTimer(0)
	defer a.schedule.timer.Stop()
	a.loop(ctx, nil)
}

func (a fleetAgent) ready() bool {
	a.fake.mu.Lock()
	defer a.fake.mu.Unlock()
	return a.fake.begun
}

func (a fleetAgent) mark() string {
	a.fake.mu.Lock()
	defer a.fake.mu.Unlock()
	return a.fake.mark
}

// fleetRouters are a speaker with routers that take all that they are told.
type fleetRouters struct {
	changed chan struct{}

	mu        sync.Mutex
	config    bgp.Config
	begun, up bool
	since     time.Time // that it has been so
	mark      string    // the communities of VIPs
}

// Set takes what is announced from now on.
func (r *fleetRouters) Set(_ context.Context, config bgp.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.begun, r.since = true, time.Now()
		time.AfterFunc(fleetConnects, r.establish)
	}
	r.config, r.mark = config, fleetCommunities(config)
	return nil
}

// fleetCommunities returns the communities of the first VIP that is announced; empty: none is, or it has none.
func fleetCommunities(config bgp.Config) string {
	for _, session := range config.Sessions {
		for advertised := range session.Advertisements.All() {
			if advertised.Prefix.IsSingleIP() {
				return string(advertised.Communities)
			}
		}
	}
	return ""
}

func (r *fleetRouters) establish() {
	r.mu.Lock()
	r.up, r.since = true, time.Now()
	r.mu.Unlock()
	wake.Up(r.changed)
}

// State returns the sessions that are planned. Of what each announces it has the pod CIDRs, which are all that is looked for.
func (r *fleetRouters) State(context.Context) (all []bgp.SessionState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, session := range r.config.Sessions {
		state := bgp.SessionState{Key: bgp.Key{Router: session.Session.Router, Addr: session.Session.RouterAddr}, Up: r.up, Since: r.since}
		if !r.up {
			state.Cause = bgp.Connecting
			all = append(all, state)
			continue
		}
		for advertised := range session.Advertisements.All() {
			if !advertised.Prefix.IsSingleIP() {
				state.Announced = append(state.Announced, advertised.Prefix)
			}
		}
		all = append(all, state)
	}
	return all
}

// Changed tells that sessions came up.
func (r *fleetRouters) Changed() <-chan struct{} { return r.changed }

// Stop does nothing.
func (r *fleetRouters) Stop(context.Context, string) error { return nil }

// Leave does nothing.
func (r *fleetRouters) Leave(context.Context) error { return nil }

// fleetTable is a routing table that takes every route.
type fleetTable struct{}

// Set reports that all routes are there.
func (fleetTable) Set(_ context.Context, routes []routing.Route) (kernel.State, error) {
	return kernel.State{Want: len(routes), Have: len(routes)}, nil
}

// SetTunnel does nothing.
func (fleetTable) SetTunnel(context.Context, routing.Tunnel) error { return nil }

// Watch returns no events.
func (fleetTable) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

// Invalidate does nothing.
func (fleetTable) Invalidate() {}

// Close does nothing.
func (fleetTable) Close() {}
