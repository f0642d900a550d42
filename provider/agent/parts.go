package agent

import (
	"context"
	"net/netip"
	"time"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/proxy"
	"plinth.dev/plinth/provider/agent/report"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
)

// speaker is the agent's BGP speaker: [bgp.Speaker]. A pass uses the first two methods.
type speaker interface {
	Set(context.Context, bgp.Config) error
	State(context.Context) []bgp.SessionState
	Changed() <-chan struct{}
	Stop(ctx context.Context, reason string) error
	Leave(context.Context) error
}

// routeTable is the agent's routing table in the kernel: [kernel.Table]. A pass uses the first two methods.
type routeTable interface {
	Set(context.Context, []routing.Route) (kernel.State, error)
	SetTunnel(context.Context, routing.Tunnel) error
	Watch(context.Context) (<-chan struct{}, error)
	Invalidate()
	Close()
}

// outside is the outside world of the agent: it reaches the network and the kernel by nothing else, but for settings.
type outside struct {
	speaker   speaker
	table     routeTable
	links     *link.Links // nil: none is answered on
	owners    *link.Owners
	witnesses *link.Witnesses
}

// kubeProxy is the state of kube-proxy on this machine, by its health and its rules.
type kubeProxy struct {
	health *proxy.Health
	gate   *proxy.Gate
}

// reporting is the part of the agent that reports the state it reached, with its last reports.
type reporting struct {
	writer   *report.Writer
	board    *report.Board
	at       time.Time // that the sessions were asked; zero: they are to be asked at once
	failure  string    // of the last pass
	unread   lb.Unread // of what is stored
	settings []kernel.Setting
}

// onDisk is the writer of the state directory.
type onDisk struct {
	saver  *disk.Saver
	claims []netip.Addr // that the process after this one would take for answered for
}

// rereads is whether the kernel's routes are to be read back.
type rereads struct {
	due  bool
	last time.Time // because of an event
}

// grace is for how long what may be late is waited for.
type grace struct {
	boot    time.Duration // what comes up after a boot
	until   time.Time     // the API server, as long; zero: the machine has not just booted
	silence time.Duration // after this the API server counts as away
}

// known is the origin of the inputs in force.
type known struct {
	live     bool         // the API server has told all
	restored *plan.Inputs // of the process before this one; nil once the API server has told all
	unlisted bool         // the inventory has no machine for this Node any more
}

// waiting is the input that a plan is pending for; what is in force stays in force meanwhile.
type waiting struct {
	what  string // empty: nothing
	since time.Time
}

// routers is the state of the sessions with routers.
type routers struct {
	sessions  []bgp.SessionState
	down      map[netip.Addr]bool // routers that others stand in for
	inherited map[netip.Addr]bool // of these, as the process before this one left them
	changed   bool                // down, since the last plan of routes
	tried     tried
	rotation  rotation
}

// planned is the plan in force, what it was made from, and how far it was carried out.
type planned struct {
	once       bool // there is one
	restarting bool // routers keep what the process before this one announced, until there is
	plan       plan.Plan
	basis      basis    // that plan was made from
	routesKey  plan.Key // that its routes were made from
	router     routing.Planner
	announcer  advertise.Planner
	inSync     bool // the Speaker says what it says
	reached    kernel.State
}

// basis is all that a plan depends on, besides the routers that lost their session.
type basis struct {
	plan.Key
	draining, withdrawn bool
	healthy             bool // kube-proxy
	unlisted            bool
}
