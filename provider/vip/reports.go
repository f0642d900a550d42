package vip

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
)

// A status that somebody else overwrote is repaired at once, then after a pause that doubles,
// so that two programs that both insist do not keep the API server busy. A status that is left
// alone for long enough is repaired at once again.
const (
	firstPause = time.Second
	lastPause  = time.Minute
	longEnough = 5 * time.Minute
)

// pauseBefore is how long a status is left alone that was repaired so many times.
func pauseBefore(repairs int) time.Duration {
	if repairs == 0 {
		return 0
	}
	return min(firstPause<<min(repairs-1, 6), lastPause)
}

// reports are the statuses of Services as they were observed.
type reports struct {
	now  func() time.Time
	mu   sync.Mutex
	seen map[lb.ServiceKey]*seenStatus
}

// seenStatus is the part of a Service's status that Plinth reported and that was observed there.
type seenStatus struct {
	uid        types.UID // of the Service
	vips       []netip.Addr
	vipsSeen   bool      // vips were
	message    string    // of the condition; empty: none was
	repairedAt time.Time // zero: never
	repairs    int       // since it was left alone for long
}

func newReports(now func() time.Time) *reports {
	return &reports{now: now, seen: map[lb.ServiceKey]*seenStatus{}}
}

// observe takes in the status of a Service, and reports whether it has said what the Service
// was told last, and no longer does.
func (r *reports) observe(svc *v1.Service, told ipam.Decision) (drifted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen[keyOf(svc)]
	if seen == nil || seen.uid != svc.UID { // that was an earlier one of its name
		seen = &seenStatus{uid: svc.UID}
		r.seen[keyOf(svc)] = seen
	}
	vips := told.Addrs()
	if sameIngress(svc, ingressOf(vips)) {
		seen.vips, seen.vipsSeen = vips, true
	} else if seen.vipsSeen && slices.Equal(seen.vips, vips) {
		drifted = true
	}
	c, want := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated), conditionOf(svc, told, time.Time{})
	if says(c, want) {
		seen.message = c.Message
	} else if seen.message == want.Message {
		drifted = true
	}
	return drifted
}

// mayRepair reports whether a status may be repaired now, or else how long to wait.
func (r *reports) mayRepair(k lb.ServiceKey) (now bool, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen[k]
	if seen == nil {
		return true, 0
	}
	at := r.now()
	if at.Sub(seen.repairedAt) > longEnough {
		seen.repairs = 0
	}
	if wait := seen.repairedAt.Add(pauseBefore(seen.repairs)).Sub(at); wait > 0 {
		return false, wait
	}
	return true, 0
}

// repaired counts that a status was repaired, which makes the next pause longer.
func (r *reports) repaired(k lb.ServiceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.seen[k]; l != nil {
		l.repairedAt, l.repairs = r.now(), l.repairs+1
	}
}

// forget forgets a Service.
func (r *reports) forget(k lb.ServiceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, k)
}
