package advertise

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// rivals are the machines that were heard to claim a VIP, each with what became of it: of three that
// claim one, each hears two others in turn.
type rivals map[string]rival

type rival struct {
	heard   time.Duration // last
	insists time.Duration // since when this machine answers on though it hears the other; 0: it does not
}

// hear notes that a machine claims the VIP, which this one is to have; the time is since when it insists.
func (rs rivals) hear(now time.Duration, machine string, insist bool) time.Duration {
	next := rival{heard: now}
	if rs.claims(now, machine, yields) {
		next.insists = rs[machine].insists
	}
	if insist {
		next.insists = cmp.Or(next.insists, now)
	}
	rs[machine] = next
	return next.insists
}

// claims reports whether a machine was heard to claim the VIP within a period.
func (rs rivals) claims(now time.Duration, machine string, period time.Duration) bool {
	r, known := rs[machine]
	return known && now-r.heard < period
}

// hasTaken reports whether a machine claims the VIP that this one yields to it since then, or both claim it and neither has
// given way yet.
func (rs rivals) hasTaken(now time.Duration, machine string, since time.Duration) bool {
	r := rs[machine]
	return rs.claims(now, machine, yields) && (r.heard >= since || r.insists != 0 && since-r.insists < careful)
}

// insists reports whether this machine answers on though it hears another one.
func (rs rivals) insists() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(rs)), func(r rival) bool { return r.insists != 0 })
}

// silent reports whether no other machine was heard to claim the VIP lately.
func (rs rivals) silent(now time.Duration) bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(rs)), func(r rival) bool { return now-r.heard < yields })
}

// giveWay ends that this machine insists.
func (rs rivals) giveWay() {
	for machine, r := range rs {
		rs[machine] = rival{heard: r.heard}
	}
}
