package agent

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
)

// alternate is how long a session that is down is left to each of two passwords: routers take a
// session again 5 to 10 s after they lost one.
const alternate = 10 * time.Second

// rotation decides which password each session is planned with while its Secret changes. A session
// that is up keeps the one that it is up with: the router may have that one still, and ends the
// session itself once it has another. One that is down takes the Secret's, and while that does
// not bring it up, in turn the last that did. So a wrong Secret ends no session, but on one machine for each
// router of a rack, which tries it at once, for as long as terms of sessions are tried; see
// [inventory.Safety.Trial].
type rotation struct {
	log      *slog.Logger
	sessions map[bgp.Key]*rotating
	version  uint64 // changes so far of what sessions are planned with
}

// rotating is one session.
type rotating struct {
	key     inventory.SecretKey
	now     bgp.Password // that it is planned with
	since   time.Time    // when that began
	good    bgp.Password // that it was up with last; empty: it was not
	tried   bgp.Password // the Secret's, that this machine tried while it knew another; empty: none
	rejects bool         // of tried: it did not bring the session up
}

// observe looks at what sessions want and whether they are up, and decides. It returns when to look
// again; 0: when something changes.
func (r *rotation) observe(in plan.Inputs, machine inventory.Machine, have []bgp.SessionState, now time.Time) (next time.Duration) {
	wanted := map[bgp.Key]bool{}
	for _, session := range in.Inventory.Sessions(machine) {
		key, latest := bgp.Key{Router: session.Router, Addr: session.RouterAddr}, in.Passwords[session.Password]
		wanted[key] = true
		switch x := r.sessions[key]; {
		case x == nil || x.key != session.Password && x.now != latest:
			r.begin(key, session.Password, latest, now)
		default:
			x.key = session.Password // the same password from elsewhere leaves the session as it is
		}
		x := r.sessions[key]
		up := slices.ContainsFunc(have, func(s bgp.SessionState) bool { return s.Key == key && s.Up && s.Since.After(x.since) })
		if up {
			x.good = x.now
		}
		left := r.decide(x, observation{
			session: key, latest: latest, up: up, now: now, limit: in.Inventory.Safety.Trial(),
			first: func() bool { return triesFirst(in.Inventory, machine, session.Router) },
		})
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	maps.DeleteFunc(r.sessions, func(k bgp.Key, _ *rotating) bool { return !wanted[k] })
	return next
}

// begin notes a session that is new, or takes its password from elsewhere.
func (r *rotation) begin(key bgp.Key, from inventory.SecretKey, latest bgp.Password, now time.Time) {
	if r.sessions == nil {
		r.sessions = map[bgp.Key]*rotating{}
	}
	r.sessions[key] = &rotating{key: from, now: latest, since: now}
	r.version++
}

// observation is the state of one session and of its Secret, by which the password of the session is decided.
type observation struct {
	session bgp.Key
	latest  bgp.Password // the Secret's
	up      bool
	now     time.Time
	limit   time.Duration // for which a new password is tried; 0: all machines take it at once
	first   func() bool   // whether this machine is the one that tries it
}

// decide decides on one session. It returns when to decide again; 0: when something changes.
func (r *rotation) decide(state *rotating, seen observation) (left time.Duration) {
	lasted := seen.now.Sub(state.since)
	switch {
	case state.now == seen.latest && seen.up:
		state.rejects = false
	case state.now == seen.latest:
		return r.fallBack(state, seen, lasted)
	case seen.limit == 0, state.good == "":
		r.take(state, seen.latest, seen.now)
	case seen.up && seen.latest != "" && state.tried != seen.latest && seen.first():
		r.log.Info("trying the new password first, for all machines of the rack", "session", seen.session, "secret", state.key)
		state.tried, state.rejects = seen.latest, false
		r.take(state, seen.latest, seen.now)
		return seen.limit
	case seen.up: // the router has the former one still
	case lasted < alternate:
		return alternate - lasted
	default:
		r.take(state, seen.latest, seen.now)
		return alternate
	}
	return 0
}

// fallBack takes the last password that brought a session up, once the Secret's has not for long enough.
func (r *rotation) fallBack(state *rotating, seen observation, lasted time.Duration) (left time.Duration) {
	if state.good == "" || state.good == seen.latest {
		return 0
	}
	patience := alternate
	if state.tried == seen.latest && !state.rejects {
		patience = seen.limit
	}
	if lasted < patience {
		return patience - lasted
	}
	r.log.Warn("trying the former password again: the new one does not bring the session up", "session", seen.session, "secret", state.key)
	state.tried, state.rejects = seen.latest, true
	r.take(state, state.good, seen.now)
	return alternate
}

// take sets the password that a session is planned with from now on.
func (r *rotation) take(x *rotating, password bgp.Password, now time.Time) {
	x.now, x.since = password, now
	r.version++
}

// password returns the password that a session is planned with.
func (r *rotation) password(s inventory.Session, all map[inventory.SecretKey]bgp.Password) bgp.Password {
	if x := r.sessions[bgp.Key{Router: s.Router, Addr: s.RouterAddr}]; x != nil && x.key == s.Password {
		return x.now
	}
	return all[s.Password]
}

// kept are the passwords for the process that follows: of sessions that are up with a former one, that.
func (r *rotation) kept(all map[inventory.SecretKey]bgp.Password) map[inventory.SecretKey]bgp.Password {
	former := map[inventory.SecretKey]bgp.Password{}
	for _, x := range r.sessions {
		if x.good != "" && x.good == x.now && x.good != all[x.key] {
			former[x.key] = x.good
		}
	}
	if len(former) == 0 {
		return all
	}
	out := maps.Clone(all)
	maps.Copy(out, former)
	return out
}

// seed lets the session of a process that has just begun fall back on the password of the one before.
func (r *rotation) seed(former map[inventory.SecretKey]bgp.Password) {
	for _, x := range r.sessions {
		if p := former[x.key]; p != "" && p != x.now && x.good == "" {
			x.good = p
		}
	}
}

// refused are the routers that did not accept the new password of a Secret, sorted.
func (r *rotation) refused() (routers []string) {
	for key, x := range r.sessions {
		if x.rejects && x.tried != "" {
			routers = append(routers, key.Router)
		}
	}
	return inventory.SortedOnce(routers)
}

// triesFirst reports whether a machine is the one of its rack that tries new passwords with a
// router: the first by name that is in service and has a session with it.
func triesFirst(inv *inventory.Inventory, machine inventory.Machine, router string) bool {
	rack, _ := inv.Rack(machine.Rack)
	var names []string
	for _, o := range rack.Machines {
		if cmp.Or(o.State, inventory.StateActive) == inventory.StateActive && slices.ContainsFunc(inv.Sessions(o), func(s inventory.Session) bool { return s.Router == router }) {
			names = append(names, o.Name)
		}
	}
	return len(names) > 0 && slices.Min(names) == machine.Name
}
