package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
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

// batch bounds the paths of one call to GoBGP, which holds its lock for that long.
const batch = 1000

// event is a server's report of a change in its session.
type event struct {
	from       *instance
	state      gobgp.FSMState // of the session, unless noHoldTime or other is set
	admin      api.PeerState_AdminState
	agreed     agreement   // with the router, where the session is established
	noHoldTime bool        // the router's OPEN has no hold time: GoBGP waits for [instance.proceed]
	other      *connection // another program's, with the session's router; nil: none
}

// instance is one GoBGP server with one router, from the first attempt to connect
// until the session is lost. The next attempt gets a new one: after a reset GoBGP
// would wait for five seconds, and a session that waits for an OPEN for four minutes.
type instance struct {
	terms    terms
	bgp      *server.BgpServer
	peer     reflect.Value             // GoBGP's own; valid once began is closed
	began    chan struct{}             // closed: there is a peer
	queue    *channels.InfiniteChannel // of messages to send; nil: there is no peer
	held     atomic.Bool               // GoBGP waits before it announces anything
	released chan struct{}             // closed: it waits no more
	release  sync.Once
	done     context.CancelFunc
	initial  initialUpdate
}

// start starts a server with all its routes, and then adds the router. It calls onEvent, which may block,
// until the instance is closed.
func start(ctx context.Context, terms terms, ads []advertise.Advertisement, restarting bool, port int32, log *gobgpLog, onEvent func(event)) (*instance, error) {
	watch, done := context.WithCancel(context.WithoutCancel(ctx))
	in := &instance{
		terms: terms, bgp: server.NewBgpServer(server.LoggerOption(log.logger(), nil)), done: done,
		began: make(chan struct{}), released: make(chan struct{}),
	}
	log.beforeDial = func() { in.awaitTurn(watch, onEvent) }
	log.beforeUp = func() {
		in.awaitBFD(watch, onEvent)
		in.initial.begin()
	}
	go in.bgp.Serve()
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return in.begin(ctx, port) },
		func(ctx context.Context) error { return in.bgp.SetPolicies(ctx, policies(terms.Session.Learn)) },
		func(ctx context.Context) error {
			return in.bgp.SetPolicyAssignment(ctx, assign(policyIn, api.PolicyDirection_POLICY_DIRECTION_IMPORT))
		},
		func(ctx context.Context) error {
			return in.bgp.SetPolicyAssignment(ctx, assign(policyOut, api.PolicyDirection_POLICY_DIRECTION_EXPORT))
		},
		func(context.Context) error { return in.add(ads) },
		func(context.Context) error { return in.watch(watch, onEvent) },
		func(ctx context.Context) error {
			return in.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: terms.peer(restarting)})
		},
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			in.close(ctx, withNotification)
			return nil, fmt.Errorf("%w: %w", ErrTerms, err)
		}
	}
	in.peer = peerOf(in.bgp)
	in.queue = queueOf(in.peer)
	close(in.began)
	return in, nil
}

// begin starts BGP, and listens only where a port was given that is free. A
// session over link-local addresses only connects: its own address is not known before
// its link has one, and GoBGP ends the process over an address that is none.
//
// GoBGP keeps its options of route selection in package variables, and writes them
// here, with the values that they have already: a race that the detector finds, and
// that changes nothing.
func (in *instance) begin(ctx context.Context, port int32) error {
	global := &api.Global{
		Asn:        uint32(in.terms.Session.LocalASN),
		RouterId:   in.terms.RouterID.String(),
		ListenPort: -1,
		Families:   []uint32{0, 1}, // indices of GoBGP's: IPv4 and IPv6 unicast
	}
	if local := in.terms.Session.Local; port > 0 && local.IsValid() {
		global.ListenPort = port
		global.ListenAddresses = []string{local.String()}
		err := in.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: global})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
		global.ListenPort, global.ListenAddresses = -1, nil
	}
	return in.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: global})
}

// watch calls onEvent at each change of the session's state.
func (in *instance) watch(ctx context.Context, onEvent func(event)) error {
	return in.bgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
			if e.Type != apiutil.PEER_EVENT_STATE || ctx.Err() != nil {
				return
			}
			st := e.Peer.State
			if st.SessionState == gobgp.BGP_FSM_ESTABLISHED {
				in.awaitStored(ctx)
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

// remove withdraws routes, by their prefixes and not by an identifier: GoBGP would
// search all routes for each.
func (in *instance) remove(ads []advertise.Advertisement) error {
	return in.each(ads, func(ps []*apiutil.Path) error {
		return in.bgp.DeletePath(apiutil.DeletePathRequest{Paths: ps})
	})
}

// each calls do with paths in batches, none of them empty: an empty request has a meaning of its
// own to GoBGP.
func (in *instance) each(ads []advertise.Advertisement, do func([]*apiutil.Path) error) error {
	var errs []error
	for chunk := range slices.Chunk(ads, batch) {
		paths := make([]*apiutil.Path, 0, len(chunk))
		for _, ad := range chunk {
			p, err := path(in.terms.Session, ad)
			if err != nil {
				errs = append(errs, fmt.Errorf("%v: %w", ad.Prefix, err))
				continue
			}
			paths = append(paths, p)
		}
		if len(paths) > 0 {
			errs = append(errs, do(paths))
		}
	}
	return errors.Join(errs...)
}

// close ends the session and the server. A session that waits for BFD ends without a NOTIFICATION in any
// case, as nothing was announced over it.
func (in *instance) close(ctx context.Context, how closeMode) {
	if in.held.Load() { // GoBGP is to know that it ends before it goes on
		_ = in.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: in.terms.Session.RouterAddr.String()})
	}
	in.done()
	// The error means only that the server has ended already.
	if err := in.bgp.StopBgp(ctx, &api.StopBgpRequest{AllowGracefulRestart: how == withoutNotification}); err == nil {
		empty(in.queue)
	}
	in.bgp.Stop() // its BFD server too, which StopBgp leaves running
}

// counts holds GoBGP's counters of a session.
type counts struct {
	updatesSent, updatesReceived uint64
	opensSent, opensReceived     uint64
	hold                         time.Duration // the negotiated hold time (RFC 4271, section 4.2); zero: none, or not known yet
}

// counts returns the counters; they are 0 after an error.
func (in *instance) counts(ctx context.Context) (now counts, err error) {
	err = in.bgp.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		if m := p.GetState().GetMessages(); m != nil {
			now.updatesSent, now.updatesReceived = m.GetSent().GetUpdate(), m.GetReceived().GetUpdate()
			now.opensSent, now.opensReceived = m.GetSent().GetOpen(), m.GetReceived().GetOpen()
		}
		now.hold = time.Duration(p.GetTimers().GetState().GetNegotiatedHoldTime()) * time.Second
	})
	return now, err
}

// isHung reports whether the one connection of an attempt still waits for an OPEN.
func (in *instance) isHung() bool {
	now, err := in.counts(context.Background())
	return err == nil && now.opensSent == 1 && now.opensReceived == 0
}

// accepted counts the router's routes that the import policy accepts: default routes,
// where the terms have them learned. GoBGP's own counter of that name counts all that were received.
func (in *instance) accepted() (total int, err error) {
	if in.terms.Session.Learn != inventory.LearnDefault {
		return 0, nil
	}
	for _, prefix := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		if in.terms.Session.Families.Has(prefix) {
			err = errors.Join(err, in.bgp.ListPath(apiutil.ListPathRequest{
				TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: family(prefix), Prefixes: []*apiutil.LookupPrefix{{Prefix: prefix.String()}},
			}, func(_ gobgp.NLRI, ps []*apiutil.Path) { total += len(ps) }))
		}
	}
	return total, err
}

// shutDown closes the session with Cease, Administrative Shutdown, and a text for the router's
// operator (RFC 9003).
func (in *instance) shutDown(ctx context.Context, text string) error {
	return in.bgp.DisablePeer(ctx, &api.DisablePeerRequest{
		Address: in.terms.Session.RouterAddr.String(), Communication: text,
	})
}
