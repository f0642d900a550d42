package bgp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/lb/advertise"
)

// leave closes the session without a NOTIFICATION, and ends the goroutine.
func (s *session) leave(ctx context.Context) error {
	return s.end(ctx, func() error {
		s.endBFD(ctx, s.terms.Session.RestartTime)
		if s.in != nil {
			s.in.close(ctx, true)
		}
		return nil
	})
}

// stop withdraws every route, closes the session with a text that says why, and
// ends the goroutine.
func (s *session) stop(ctx context.Context, reason string) error {
	return s.end(ctx, func() error {
		if s.in == nil {
			return nil
		}
		var err error
		if s.state.Up {
			err = errors.Join(s.withdraw(ctx), s.in.shutDown(ctx, reason), s.awaitClosed(ctx))
		}
		s.in.close(ctx, false)
		return err
	})
}

// end has the session's goroutine do last, and then end, even after an error and whatever
// becomes of ctx: nothing may go on announcing behind its back. ctx bounds how long last may
// take, and how long it is waited for.
func (s *session) end(ctx context.Context, last func() error) error {
	result := make(chan error, 1)
	s.last = func() {
		s.stopDiagnosis()
		err := last()
		s.in = nil
		s.endBFD(ctx, 0)
		result <- err
	}
	close(s.quit)
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%v: %w", s.key, err)
	}
	return nil
}

const (
	tick      = 5 * time.Millisecond
	settled   = 10 // ticks without an UPDATE until all are taken to be out
	closeTime = 2 * time.Second
)

// noteEmptied notes that all routes are being withdrawn, if none are left: the server does so
// in its own time, and if it were closed at once, the router would never learn of it.
func (s *session) noteEmptied(gone []advertise.Advertisement, left routes) {
	s.emptied = nil
	if left.Len() > 0 || !slices.ContainsFunc(gone, func(ad advertise.Advertisement) bool { return s.agreed.families.Has(ad.Prefix) }) {
		return
	}
	if before, err := s.in.counts(context.Background()); err == nil {
		s.emptied = &before.updatesSent
	}
}

// withdraw withdraws every route, and waits until the UPDATEs are sent.
func (s *session) withdraw(ctx context.Context) error {
	if s.have.Len() > 0 {
		gone := slices.Collect(s.have.All())
		s.want, s.have = routes{}, routes{}
		s.noteEmptied(gone, routes{})
		if err := s.in.remove(gone); err != nil {
			return fmt.Errorf("withdrawing: %w", err)
		}
	}
	if s.emptied == nil {
		return nil
	}
	quiet, last := 0, *s.emptied
	return poll(ctx, func() (bool, error) {
		now, err := s.in.counts(ctx)
		if quiet++; now.updatesSent != last {
			quiet, last = 0, now.updatesSent
		}
		return last != *s.emptied && quiet >= settled, err
	})
}

// awaitClosed waits for the server to have closed the session.
func (s *session) awaitClosed(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		select {
		case e := <-s.events:
			return e.from == s.in && e.state != gobgp.BGP_FSM_ESTABLISHED, nil
		default:
			return false, nil
		}
	})
}

// poll asks until the answer is yes; after closeTime it gives up.
func poll(ctx context.Context, yes func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		if ok, err := yes(); ok || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
