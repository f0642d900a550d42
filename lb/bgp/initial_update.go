package bgp

import (
	"context"
	"sync"
	"time"

	api "github.com/osrg/gobgp/v4/api"

	"plinth.dev/plinth/wake"
)

// initialUpdate guards the initial update of a session (RFC 4724, section 2).
//
// GoBGP 4.8.0 sends a new session its initial update, reports the session, and only then stores that it is established
// (fsmHandler.loop). It drops what is announced or withdrawn between without an error (needToAdvertise), and the router
// keeps, or lacks, that route for as long as the session lives. So nothing is changed between, and a session is
// reported once its state is stored. A report of an earlier state may come late, and ends nothing.
type initialUpdate struct {
	mu      sync.Mutex
	running bool
}

// begin waits for a change that is being made, and excludes further ones until end.
func (u *initialUpdate) begin() { u.set(true) }

// end allows changes again.
func (u *initialUpdate) end() { u.set(false) }

func (u *initialUpdate) set(running bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running = running
}

// exclude makes a change, and has an initial update wait for it; it makes none while one is running.
func (u *initialUpdate) exclude(change func() error) (made bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running {
		return false, nil
	}
	return true, change()
}

// awaitStored waits until GoBGP has stored that the session is established, which it reported, and allows changes again.
func (in *instance) awaitStored(ctx context.Context) {
	for in.isOpenConfirm(ctx) {
		if !wake.After(ctx, time.Millisecond) {
			return
		}
	}
	in.initial.end()
}

// isOpenConfirm reports whether GoBGP's own state of the session is OpenConfirm (RFC 4271, section 8.2.2), from which a session is
// established.
func (in *instance) isOpenConfirm(ctx context.Context) (is bool) {
	err := in.bgp.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		is = p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_OPENCONFIRM
	})
	return is && err == nil
}
