package bgp

import (
	"context"
	"errors"
	"fmt"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// closeMode is the way to close a session: with a NOTIFICATION or without one.
type closeMode bool

const (
	withoutNotification closeMode = true  // a router in graceful restart keeps what it has until the session is back
	withNotification    closeMode = false // a router withdraws at once
)

// leave closes the session without a NOTIFICATION, and ends the goroutine.
func (s *session) leave(ctx context.Context) error {
	return s.end(ctx, func() error {
		s.bfd.close(ctx, s.terms.Session.RestartTime)
		if s.server != nil {
			s.server.close(ctx, withoutNotification)
		}
		return nil
	})
}

// stop withdraws every route, closes the session with the reason, and ends the goroutine.
func (s *session) stop(ctx context.Context, reason string) error {
	return s.end(ctx, func() (err error) {
		if s.server == nil {
			return nil
		}
		if s.state.Up {
			err = errors.Join(s.out.withdraw(ctx, s.server), s.server.shutDown(ctx, reason), s.server.awaitClosed(ctx, s.events))
		}
		s.server.close(ctx, withNotification)
		return err
	})
}

// end has the goroutine call last and end, as [mailbox.end] does, and leaves nothing running.
func (s *session) end(ctx context.Context, last func() error) error {
	err := s.mailbox.end(ctx, func() error {
		s.endDiagnosis()
		err := last()
		s.server = nil
		s.bfd.close(ctx, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("%v: %w", s.key, err)
	}
	return nil
}

const (
	tick       = 5 * time.Millisecond
	quietTicks = 10 // ticks without an UPDATE until all are taken to be sent
	closeTime  = 2 * time.Second
)

// awaitClosed waits for an event by which the server has closed the session.
func (in *instance) awaitClosed(ctx context.Context, events <-chan event) error {
	return poll(ctx, func() (bool, error) {
		select {
		case ev := <-events:
			return ev.from == in && ev.state != gobgp.BGP_FSM_ESTABLISHED, nil
		default:
			return false, nil
		}
	})
}

// poll calls done until it reports true or fails; after closeTime it gives up.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
