package bgp

import (
	"context"
	"fmt"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/bfd"
)

// onEvent handles what a server reports, unless that server is closed already.
func (s *session) onEvent(ev event) {
	switch {
	case s.server == nil || ev.from != s.server:
	case ev.noHoldTime:
		s.onNoHoldTime()
	case ev.other != nil:
		s.onOther(*ev.other)
	default:
		s.onPeerState(ev)
	}
}

// onPeerState handles the state of the server's peer.
func (s *session) onPeerState(ev event) {
	stands := ev.state == gobgp.BGP_FSM_ESTABLISHED
	switch {
	case stands && (s.phase == connecting || s.phase == unwatched):
		s.out.agreed, s.bfd.noHoldTime = ev.agreed, s.phase == unwatched
		s.onEstablished()
	case s.phase == unwatched: // GoBGP waits, and what it reports is of before
	case ev.admin == api.PeerState_ADMIN_STATE_PFX_CT:
		s.onPrefixLimit()
	case ev.state == gobgp.BGP_FSM_OPENCONFIRM:
		s.diagnoser.attempt.openReceived = true
	case s.phase.hasSession() && !stands:
		s.onSessionLost()
	case ev.state == gobgp.BGP_FSM_IDLE && s.port == 0 && s.diagnoser.log.evidence().isCollision():
		s.onAttemptTimeout() // GoBGP would connect again in its own time
	}
}

// onEstablished handles a session that GoBGP has established. Where the last one fell silent soon it
// counts as up only once it has lived for longer: with TTL security at the router's end alone, our end
// comes up, and then receives nothing.
func (s *session) onEstablished() {
	s.establishedAt, s.out.emptied = time.Now(), nil
	if s.diagnoser.fellSilent {
		s.phase.move(sessionDoubted)
	} else {
		s.phase.move(sessionStands)
	}
	if err := s.sync(); err != nil { // which withdraws what the router turns out not to accept
		s.log.Warn("failed to update announcements", "err", err)
	}
	// An interface that just came up may have had no usable address before.
	s.tryWatchPath()
	if s.phase == unconfirmed {
		s.timer.Reset(s.terms.Session.HoldTime + time.Second)
		return
	}
	s.up()
}

// onSessionLost closes a server that lost its session, and connects again, or diagnoses the cause.
func (s *session) onSessionLost() {
	loss := causeOfLoss(s.diagnoser.log.evidence(), s.terms)
	other, taken := heldByOther(s.terms.Session) // at once: FRR closes its connection soon
	lived := time.Since(s.establishedAt)
	if lost, _ := s.bfd.pathLost(); lost {
		loss = pathLoss
	}
	silent := !taken && loss.cause == HoldTimerExpired && lived < s.terms.Session.HoldTime+steady
	s.diagnoser.fellSilent = silent
	s.closeServer(context.Background(), withoutNotification)
	if silent {
		if s.state.Up || s.state.Cause == Connecting {
			s.down(loss)
		}
		s.retry.attempts++
		s.diagnoseOrConnect()
		return
	}
	if taken {
		s.onTaken(other)
		return
	}
	s.down(loss)
	s.reconnect(lived)
}

// onPrefixLimit pauses a session whose router sent too many prefixes. GoBGP by itself would close it for ever.
func (s *session) onPrefixLimit() {
	s.closeServer(context.Background(), withoutNotification)
	s.down(diagnosis{PrefixLimit, fmt.Sprintf("the router sent more than %d prefixes of one family", maxReceived)})
	s.pause(s.retry.afterRefusal())
}

// refuse pauses a session whose router sent an OPEN that this machine refuses. Before the next attempt a
// probe, which announces nothing, reads the OPEN again.
func (s *session) refuse(detail string) {
	s.retry.probeFirst = true
	s.down(diagnosis{OpenRefused, detail})
	s.pause(s.retry.afterRefusal())
}

// onTimer handles the end of the time that the phase allows.
func (s *session) onTimer() {
	switch s.phase {
	case refused:
	case diagnosing:
		s.onDiagnosis(s.diagnoser.serial, diagnosis{})
	case established:
		s.onEstablishedTimer()
	case unwatched:
		s.onBFDTimeout()
	case unconfirmed:
		s.diagnoser.fellSilent = false
		s.phase.move(doubtResolved)
		s.up()
	case paused:
		s.retry.heldUntil = time.Time{}
		if s.retry.probeFirst {
			s.diagnose()
			return
		}
		s.tryConnect()
	case connecting:
		s.onAttemptTimeout()
	}
}

// onEstablishedTimer resets the damping of a session that has been up for long. It ends one whose path
// neither BFD nor a hold time watches.
func (s *session) onEstablishedTimer() {
	if s.bfd.noHoldTime && !s.bfd.isUp() {
		s.refuseUnwatched(noBFDEither)
		return
	}
	s.retry.established()
	if s.bfd.noHoldTime {
		s.timer.Reset(steady)
	}
}

// onBFDChange closes a session whose path was lost, with a NOTIFICATION: the routes that the router has
// of it lead nowhere.
//
// A loss within frrReopenTime is ignored; should it be true, BGP's hold timer ends the session, where it
// has one.
func (s *session) onBFDChange() {
	s.onBFDUp()
	lost, status := s.bfd.pathLost()
	reopened := !s.bfd.noHoldTime && status.LastLoss == bfd.NeighborDown && time.Since(s.establishedAt) < frrReopenTime
	switch {
	case !lost, s.phase.hasSession() && reopened:
	case s.phase.hasSession():
		s.closeServer(context.Background(), withNotification)
		s.down(pathLoss)
		s.reconnect(min(status.LastUp, time.Since(s.establishedAt)))
	case s.diagnoser.loss.cause == RouterRefused && time.Since(s.state.Since) < sameLoss:
		s.replaceLoss(pathLoss)
	case s.phase == paused && s.state.Cause == Flapping:
		s.reconnect(status.LastUp) // the path still flaps
	}
}

// replaceLoss gives the last loss a better diagnosis.
func (s *session) replaceLoss(better diagnosis) {
	before := s.diagnoser.loss.cause
	s.diagnoser.loss = better
	if s.state.Cause == before {
		s.down(better)
	} else if s.state.Cause == Flapping {
		s.down(s.retry.flapping(better))
	}
}
