package vip

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
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

// reports is what each Service was told last.
type reports struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[lb.ServiceKey]*lastReported
}

// lastReported is what a Service was told last.
type lastReported struct {
	uid           types.UID // of the Service that was told
	decision      ipam.Decision
	vipsSeen      bool      // its status has had these VIPs since
	conditionSeen bool      // its condition has said so since
	repairedAt    time.Time // zero: never
	repairs       int       // since it was left alone for long
}

func newReports(now func() time.Time) *reports {
	return &reports{now: now, last: map[lb.ServiceKey]*lastReported{}}
}

// note remembers what a Service is told.
func (r *reports) note(svc *v1.Service, d ipam.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.last[keyOf(svc)]
	if l == nil || l.uid != svc.UID {
		l = &lastReported{uid: svc.UID}
		r.last[keyOf(svc)] = l
	}
	if !slices.EqualFunc(l.decision.VIPs, d.VIPs, func(x, y ipam.Assignment) bool { return x.Addr == y.Addr }) {
		l.vipsSeen = false
	}
	l.conditionSeen = l.conditionSeen && sameDecision(l.decision, d)
	l.decision = d
	l.vipsSeen = l.vipsSeen || !d.Refused && sameIngress(svc, ingressOf(addrs(d.VIPs)))
}

// observe takes in the status of a Service, and reports whether one that was as it should be no
// longer is.
func (r *reports) observe(svc *v1.Service) (drifted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.last[keyOf(svc)]
	if l == nil || l.uid != svc.UID { // an earlier one of its name was told
		return false
	}
	same, says := sameIngress(svc, ingressOf(addrs(l.decision.VIPs))), saysDecision(svc, l.decision)
	l.vipsSeen, l.conditionSeen = l.vipsSeen || same, l.conditionSeen || says
	return l.vipsSeen && !same || l.conditionSeen && !says
}

// isLast reports whether a decision is the last one about a Service: what it held by an
// earlier one may be another's by now.
func (r *reports) isLast(svc *v1.Service, d ipam.Decision) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.last[keyOf(svc)]
	return l != nil && l.uid == svc.UID && slices.Equal(addrs(l.decision.VIPs), addrs(d.VIPs))
}

// mayRepair reports whether a status may be repaired now, or else how long to wait.
func (r *reports) mayRepair(k lb.ServiceKey) (now bool, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.last[k]
	if l == nil {
		return true, 0
	}
	at := r.now()
	if at.Sub(l.repairedAt) > longEnough {
		l.repairs = 0
	}
	if wait := l.repairedAt.Add(pauseBefore(l.repairs)).Sub(at); wait > 0 {
		return false, wait
	}
	return true, 0
}

// repaired counts that a status was repaired, which makes the next pause longer.
func (r *reports) repaired(k lb.ServiceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.last[k]; l != nil {
		l.repairedAt, l.repairs = r.now(), l.repairs+1
	}
}

// forget forgets what a Service was told.
func (r *reports) forget(k lb.ServiceKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, k)
}
