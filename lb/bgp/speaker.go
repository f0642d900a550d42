package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"plinth.dev/plinth/bfd"
	"plinth.dev/plinth/wake"
)

// Options configure a [Speaker].
type Options struct {
	Log *slog.Logger
	// ListenPort is the TCP port to accept sessions on; 0: only connect out. The sessions of one local address cannot share a port: the
	// first of them listens, the others only connect.
	ListenPort int32
	BFD        *bfd.Listeners // of the process; nil: of this Speaker alone
}

// Speaker runs the BGP sessions of one machine. It can be used by several goroutines.
type Speaker struct {
	common
	changed chan struct{}

	setting  sync.Mutex // held by Set, Leave and Stop from beginning to end
	mu       sync.Mutex // guards what follows, and is never held for long
	sessions map[Key]*session
	closed   bool
}

// NewSpeaker returns a Speaker without sessions.
func NewSpeaker(opts Options) *Speaker {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Speaker{changed: make(chan struct{}, 1), sessions: map[Key]*session{}}
	s.common = common{log: log, port: opts.ListenPort, bfdListeners: cmp.Or(opts.BFD, bfd.NewListeners()), onChange: s.notify}
	return s
}

// Set makes the Speaker announce the routes of a Config, and nothing else. A route that is announced already
// is not announced again, and a session whose terms stay is not touched, whatever becomes
// of the others. Set returns when GoBGP has the routes, not when routers have received them.
//
// It continues after a failure and returns all errors, joined: [ErrClosed]
// alone after Leave or Stop; [ErrTwice]; of a session's terms [ErrRouterID], [ErrTerms],
// [ErrPasswordMissing] or [ErrPasswordLength]; [ErrRefused] of each advertisement that is
// withheld; and the error of the context.
func (s *Speaker) Set(ctx context.Context, config Config) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	byKey, keys, errs := config.index()
	errs = errors.Join(errs, s.rename(ctx, byKey))
	gone := s.remove(func(k Key) bool { _, stays := byKey[k]; return !stays })
	limits := config.bounds()
	stop := func(old *session) error { return old.stop(ctx, "the session is no longer wanted") }
	set := func(k Key) error { return s.setOne(ctx, config, byKey[k], limits) }
	// A session ends before another begins to the same address, or listens on the same
	// port. No other session waits for those that go.
	before, beside := partition(gone, func(old *session) bool {
		return s.port > 0 || slices.ContainsFunc(keys, func(k Key) bool { return k.Addr == old.key.Addr })
	})
	errs = errors.Join(errs, each(before, stop))
	var setErr, stopErr error
	var wg sync.WaitGroup
	wg.Go(func() { setErr = each(keys, set) })
	wg.Go(func() { stopErr = each(beside, stop) })
	wg.Wait()
	return errors.Join(errs, stopErr, setErr)
}

// rename keeps the sessions of a router that has a new name: nothing between the two ends depends on it. Where two
// sessions to one address come or go it is not known which is which, and they end and begin.
func (s *Speaker) rename(ctx context.Context, byKey map[Key]SessionConfig) (err error) {
	s.mu.Lock()
	going, coming := map[netip.Addr][]Key{}, map[netip.Addr][]Key{}
	for k := range s.sessions {
		if _, stays := byKey[k]; !stays {
			going[k.Addr] = append(going[k.Addr], k)
		}
	}
	for k := range byKey {
		if s.sessions[k] == nil {
			coming[k.Addr] = append(coming[k.Addr], k)
		}
	}
	renamed := map[*session]Key{}
	for addr, old := range going {
		if next := coming[addr]; len(old) == 1 && len(next) == 1 {
			same := s.sessions[old[0]]
			delete(s.sessions, old[0])
			s.sessions[next[0]], renamed[same] = same, next[0]
		}
	}
	s.mu.Unlock()
	for same, key := range renamed {
		err = errors.Join(err, same.do(ctx, func() error { same.rename(key); return nil }))
	}
	return err
}

// partition separates the sessions for which a condition holds from the others.
func partition(all []*session, holds func(*session) bool) (yes, no []*session) {
	for _, one := range all {
		if holds(one) {
			yes = append(yes, one)
		} else {
			no = append(no, one)
		}
	}
	return yes, no
}

// setOne sets one session, without the routes that the guard withholds.
func (s *Speaker) setOne(ctx context.Context, c Config, sc SessionConfig, limits bounds) error {
	one := s.session(c, sc)
	valid, withheld := one.guard.filter(sc, limits)
	err := errors.Join(withheld.err(), one.do(ctx, func() error {
		one.withheld = withheld
		return one.set(ctx, sc.terms(c.RouterID), valid)
	}))
	if err != nil {
		return fmt.Errorf("%v: %w", sc.key(), err)
	}
	return nil
}

// session returns the session of a key, which it creates where there is none.
func (s *Speaker) session(c Config, sc SessionConfig) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sc.key()
	if s.sessions[key] == nil {
		s.sessions[key] = newSession(key, s.common, c.Restarting, sc.terms(c.RouterID))
	}
	return s.sessions[key]
}

// isClosed reports whether the Speaker has left or stopped.
func (s *Speaker) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// remove removes and returns the sessions whose keys match.
func (s *Speaker) remove(matches func(Key) bool) (gone []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, one := range s.sessions {
		if matches(k) {
			gone = append(gone, one)
			delete(s.sessions, k)
		}
	}
	return gone
}

// Changed receives a value after a session went up or down, or is down for another
// cause. Changes that come together give one value.
func (s *Speaker) Changed() <-chan struct{} { return s.changed }

// notify makes Changed receive a value.
func (s *Speaker) notify() { wake.Up(s.changed) }

// State returns the state of every session, sorted by router and address.
func (s *Speaker) State(ctx context.Context) []SessionState {
	s.mu.Lock()
	all := maps.Clone(s.sessions)
	s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(all), Key.compare)
	states := make([]SessionState, len(all))
	var wg sync.WaitGroup
	for i, k := range keys {
		wg.Go(func() { states[i] = all[k].snapshot(ctx, k) })
	}
	wg.Wait()
	return states
}

// Leave closes every session without a NOTIFICATION: routers in graceful restart
// keep our routes for their restart time, for the process that follows. The
// Speaker cannot be used any more.
func (s *Speaker) Leave(ctx context.Context) error {
	return s.close(func(one *session) error { return one.leave(ctx) })
}

// Stop withdraws every route, and closes every session with Cease and the reason
// (RFC 9003; up to 255 bytes are sent). The Speaker cannot be used any more.
func (s *Speaker) Stop(ctx context.Context, reason string) error {
	return s.close(func(one *session) error { return one.stop(ctx, reason) })
}

// close ends every session in a way, and refuses further calls of Set.
func (s *Speaker) close(end func(*session) error) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return each(s.remove(func(Key) bool { return true }), end)
}

// each calls do for all at once, and joins the errors in their order.
func each[T any](all []T, do func(T) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(func() { errs[i] = do(x) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
