package bgp

import (
	"context"
	"sync"
	"time"

	api "github.com/osrg/gobgp/v4/api"
)

// GoBGP 4.8.0 gives a new session its first routes, tells of the session, and only then stores that it is established
// (fsmHandler.loop). What is announced or withdrawn between is dropped without a word (needToAdvertise), and the router
// keeps, or lacks, that route for as long as the session lives. So nothing is changed between, and what is told of a
// session is told once its state is stored.

// settling is whether GoBGP is giving a session its first routes.
type settling struct {
	mu  sync.Mutex
	now bool
}

// begin waits for a change that is being made, and lets none be made until end.
func (g *settling) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = true
}

func (g *settling) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = false
}

// unless makes a change, and keeps the first routes waiting for as long; it makes none while these are given.
func (g *settling) unless(change func() error) (made bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now {
		return false, nil
	}
	return true, change()
}

// settle waits until GoBGP has stored the state that it told of.
func (in *instance) settle(ctx context.Context) {
	for in.confirms(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
	in.first.end()
}

// confirms reports whether GoBGP's own state of the session is OpenConfirm (RFC 4271, section 8.2.2), from which a session is
// established.
func (in *instance) confirms(ctx context.Context) (is bool) {
	err := in.bgp.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		is = p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_OPENCONFIRM
	})
	return is && err == nil
}
