package vip

import (
	"cmp"
	"net/netip"
	"strings"
	"sync"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// How long nobody announces a VIP until its Services are told. Endpoints come and go in a rollout;
// routers keep the routes of a session that is down, by default for a minute; and an agent that is
// installed says so soon.
const (
	unannouncedFor = 10 * time.Second
	sessionFor     = 90 * time.Second
)

// patienceWith is how long a reason has to last until it is told.
func patienceWith(r lb.Reason) time.Duration {
	switch {
	case r == lb.NoSessionUp, r == lb.NoAgent:
		return sessionFor
	case preview.Disputes(r):
		return 0
	}
	return unannouncedFor
}

// announcements keeps which VIPs in use nobody announces, since when, and what of that is told.
// Its zero value knows nothing: Services then keep what an earlier leader told them.
type announcements struct {
	mu    sync.Mutex
	known bool // it has been looked once
	vips  map[netip.Addr]*unannounced
	of    map[lb.ServiceKey][]*unannounced // by who holds them, in their order
}

// unannounced is a VIP that nobody announces.
type unannounced struct {
	since   time.Time
	is      preview.Unannounced
	isSince time.Time // for this reason
	told    preview.Unannounced
}

// due returns the time until a reason is to be reported; 0: it was reported, or is to be now.
func (u *unannounced) due(now time.Time) time.Duration {
	since := u.since
	switch {
	case u.tells(u.is):
		return 0
	case u.told.Reason != "":
		since = u.isSince // a reason that changes all the time is not told each time
	}
	return max(0, since.Add(patienceWith(u.is.Reason)).Sub(now))
}

// tells reports whether it is told just so.
func (u *unannounced) tells(v preview.Unannounced) bool {
	return u.told.Reason == v.Reason && u.told.String() == v.String()
}

// observe takes in the VIPs that nobody announces now, and returns how long it takes until more of
// them is to be told; 0: nothing is, unless something changes.
func (a *announcements) observe(now time.Time, all []preview.Unannounced) (next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.vips
	a.known, a.vips, a.of = true, map[netip.Addr]*unannounced{}, map[lb.ServiceKey][]*unannounced{}
	for _, is := range all {
		entry := before[is.Addr]
		if entry == nil {
			entry = &unannounced{since: now}
		}
		if entry.isSince.IsZero() || entry.is.Reason != is.Reason || entry.is.String() != is.String() {
			entry.isSince = now
		}
		entry.is = is
		if wait := entry.due(now); wait == 0 {
			entry.told = is
		} else if next == 0 || wait < next {
			next = wait
		}
		a.vips[is.Addr] = entry
		for _, k := range is.Services {
			a.of[k] = append(a.of[k], entry)
		}
	}
	return next
}

// announcement is the report to a Service on the announcements of its VIPs.
type announcement struct {
	known   bool      // false: what it was told stays
	reason  lb.Reason // of the first VIP that nobody announces; empty: somebody announces all of them
	message string
}

// said returns the report to a Service. One that is to be told something in a moment keeps what it was
// told before, if anything: an earlier leader may have told it the same.
func (a *announcements) said(k lb.ServiceKey) announcement {
	a.mu.Lock()
	defer a.mu.Unlock()
	said := announcement{known: a.known && len(a.of[k]) == 0}
	var messages []string
	for _, unannounced := range a.of[k] {
		if unannounced.told.Reason != "" {
			said.known, said.reason = true, cmp.Or(said.reason, unannounced.told.Reason)
			what := "nobody announces "
			if preview.Disputes(unannounced.told.Reason) {
				what = "not its owner alone has "
			}
			messages = append(messages, what+unannounced.told.String())
		}
	}
	said.message = inventory.ShortenText(strings.Join(messages, "; "), maxCondition)
	return said
}

// count counts the VIPs that are told of, by reason.
func (a *announcements) count() map[lb.Reason]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[lb.Reason]int{}
	for _, u := range a.vips {
		if u.told.Reason != "" {
			counts[u.told.Reason]++
		}
	}
	return counts
}
