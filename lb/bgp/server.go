package bgp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eapache/channels"
	api "github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// batch is how many paths go to GoBGP at once: it holds its lock for that long.
const batch = 1000

// event is what a server reports about its session.
type event struct {
	from   *instance
	state  gobgp.FSMState
	admin  api.PeerState_AdminState
	agreed agreement   // with the router, where a session stands
	noHold bool        // the router's OPEN has no hold time: nothing more happens before [instance.watched]
	other  *connection // another program's, with the session's router; nil: the server's state is the news
}

// instance is one GoBGP server with one router, from the first attempt to connect
// until the session is lost. The next attempt gets a new one: after a reset GoBGP
// would wait for five seconds, and a session that waits for an OPEN for four minutes.
type instance struct {
	terms  terms
	notes  *notes
	bgp    *server.BgpServer
	peer   reflect.Value             // GoBGP's own; counts once began is closed
	began  chan struct{}             // closed: there is a peer
	queue  *channels.InfiniteChannel // of what is yet to be sent; nil: there is no peer
	held   atomic.Bool               // GoBGP waits before it announces anything
	letGo  chan struct{}             // closed: it waits no more
	letOff sync.Once
	done   context.CancelFunc
	first  settling
}

// start brings a server up with all its routes, and only then adds the router.
// Events go to onEvent until the instance is closed; onEvent may block.
func start(ctx context.Context, t terms, ads []advertise.Advertisement, restarting bool, port int32, n *notes, onEvent func(event)) (*instance, error) {
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	in := &instance{
		terms: t, notes: n, bgp: server.NewBgpServer(server.LoggerOption(n.logger(), nil)), done: done,
		began: make(chan struct{}), letGo: make(chan struct{}),
	}
	n.beforeDial = func() { in.awaitTurn(watch, onEvent) }
	n.beforeUp = func() {
		in.awaitPath(watch, onEvent)
		in.first.begin()
	}
	go in.bgp.Serve()
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return in.begin(ctx, port) },
		in.policies,
		func(context.Context) error { return in.add(ads) },
		func(context.Context) error { return in.watch(watch, onEvent) },
		func(ctx context.Context) error {
			return in.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: t.peer(restarting)})
		},
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			in.close(ctx, false)
			return nil, fmt.Errorf("%w: %w", ErrTerms, err)
		}
	}
	in.peer = peerOf(in.bgp)
	in.queue = queueOf(in.peer)
	close(in.began)
	return in, nil
}

// begin starts BGP, listening only where a port was given and nobody has it yet. A
// session over link-local addresses only connects: its own address is not known before
// its link has one, and GoBGP ends the process over an address that is none.
//
// GoBGP keeps its options of route selection in package variables, and writes them
// here, with the values that they have already: a race that the detector finds, and
// that changes nothing.
func (in *instance) begin(ctx context.Context, port int32) error {
	g := &api.Global{
		Asn:        uint32(in.terms.Session.LocalASN),
		RouterId:   in.terms.RouterID.String(),
		ListenPort: -1,
		Families:   []uint32{0, 1}, // indices of GoBGP's: IPv4 and IPv6 unicast
	}
	if local := in.terms.Session.Local; port > 0 && local.IsValid() {
		g.ListenPort = port
		g.ListenAddresses = []string{local.String()}
		err := in.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: g})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		g.ListenPort, g.ListenAddresses = -1, nil
	}
	return in.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: g})
}

func (in *instance) policies(ctx context.Context) error {
	if err := in.bgp.SetPolicies(ctx, policies(in.terms.Session.Learn)); err != nil {
		return err
	}
	if err := in.bgp.SetPolicyAssignment(ctx, assign(policyIn, api.PolicyDirection_POLICY_DIRECTION_IMPORT)); err != nil {
		return err
	}
	return in.bgp.SetPolicyAssignment(ctx, assign(policyOut, api.PolicyDirection_POLICY_DIRECTION_EXPORT))
}

func (in *instance) watch(ctx context.Context, onEvent func(event)) error {
	return in.bgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
			if e.Type != apiutil.PEER_EVENT_STATE || ctx.Err() != nil {
				return
			}
			st := e.Peer.State
			if st.SessionState != gobgp.BGP_FSM_OPENCONFIRM {
				in.settle(ctx)
			}
			onEvent(event{from: in, state: st.SessionState, admin: st.AdminState, agreed: agreementOf(st.RemoteCap)})
		},
	}, server.WatchPeer())
}

// add announces routes, each in place of an older one to the same prefix.
func (in *instance) add(ads []advertise.Advertisement) error {
	return in.each(ads, func(ps []*apiutil.Path) error {
		_, err := in.bgp.AddPath(apiutil.AddPathRequest{Paths: ps})
		return err
	})
}

// remove withdraws routes, by what they are and not by an identifier: that would
// search all of them for each.
func (in *instance) remove(ads []advertise.Advertisement) error {
	return in.each(ads, func(ps []*apiutil.Path) error {
		return in.bgp.DeletePath(apiutil.DeletePathRequest{Paths: ps})
	})
}

// each hands over paths in batches, none of them empty: GoBGP takes an empty
// request for something else than nothing.
func (in *instance) each(ads []advertise.Advertisement, do func([]*apiutil.Path) error) error {
	var errs []error
	for some := range slices.Chunk(ads, batch) {
		ps := make([]*apiutil.Path, 0, len(some))
		for _, ad := range some {
			p, err := path(in.terms.Session, ad)
			if err != nil {
				errs = append(errs, fmt.Errorf("%v: %w", ad.Prefix, err))
				continue
			}
			ps = append(ps, p)
		}
		if len(ps) > 0 {
			errs = append(errs, do(ps))
		}
	}
	return errors.Join(errs...)
}

// close ends the session and the server. A quiet end leaves out the NOTIFICATION,
// and a router in graceful restart keeps our routes. A session that waits for BFD ends
// without a word, as nothing was said over it.
func (in *instance) close(ctx context.Context, quiet bool) {
	if in.held.Load() { // GoBGP is to know that it ends before it goes on
		_ = in.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: in.terms.Session.RouterAddr.String()})
	}
	in.done()
	// The error says only that the server has ended already.
	if err := in.bgp.StopBgp(ctx, &api.StopBgpRequest{AllowGracefulRestart: quiet}); err == nil {
		empty(in.queue)
	}
	in.bgp.Stop() // its BFD server too, which StopBgp leaves running
}

// counts are what GoBGP counted for a session.
type counts struct {
	updatesSent, updatesReceived uint64
	opensSent, opensReceived     uint64
	hold                         time.Duration // that both ends count by (RFC 4271, section 4.2); zero: none, or not known yet
}

func (in *instance) counts(ctx context.Context) (counts, error) {
	var c counts
	err := in.bgp.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		if m := p.GetState().GetMessages(); m != nil {
			c.updatesSent, c.updatesReceived = m.GetSent().GetUpdate(), m.GetReceived().GetUpdate()
			c.opensSent, c.opensReceived = m.GetSent().GetOpen(), m.GetReceived().GetOpen()
		}
		c.hold = time.Duration(p.GetTimers().GetState().GetNegotiatedHoldTime()) * time.Second
	})
	return c, err
}

// accepted counts the routes of the router's that import let in: default routes,
// where they are to be learned. GoBGP's own counter of that name counts what came.
func (in *instance) accepted() (n int, err error) {
	if in.terms.Session.Learn != inventory.LearnDefault {
		return 0, nil
	}
	for f, prefix := range map[gobgp.Family]string{gobgp.RF_IPv4_UC: "0.0.0.0/0", gobgp.RF_IPv6_UC: "::/0"} {
		if !in.carries(f) {
			continue
		}
		err = errors.Join(err, in.bgp.ListPath(apiutil.ListPathRequest{
			TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f, Prefixes: []*apiutil.LookupPrefix{{Prefix: prefix}},
		}, func(_ gobgp.NLRI, ps []*apiutil.Path) { n += len(ps) }))
	}
	return n, err
}

func (in *instance) carries(f gobgp.Family) bool {
	fs := in.terms.Session.Families
	return f == gobgp.RF_IPv4_UC && fs.IPv4 || f == gobgp.RF_IPv6_UC && fs.IPv6
}

// shutDown closes the session with Cease, Administrative Shutdown, and a text that
// the router shows to its operator (RFC 9003).
func (in *instance) shutDown(ctx context.Context, text string) error {
	return in.bgp.DisablePeer(ctx, &api.DisablePeerRequest{
		Address: in.terms.Session.RouterAddr.String(), Communication: text,
	})
}
