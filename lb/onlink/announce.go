package onlink

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/uptime"
)

// burst holds the times after its beginning at which a claim is announced. Frames get lost, and Linux before 4.12
// ignores a change of a neighbour within a second of another.
var burst = [...]time.Duration{0, 60 * time.Millisecond, 250 * time.Millisecond, 1400 * time.Millisecond, 2500 * time.Millisecond, 3600 * time.Millisecond}

// asReply marks those of them that are sent as a reply, too: with the probes of a careful claim
// that is a dozen frames.
var asReply = [len(burst)]bool{0: true, 2: true, 4: true}

// schedule holds the times of a claim's announcements.
type schedule struct {
	begun time.Duration
	sent  int           // of the burst
	due   time.Duration // the next
	pace  time.Duration // after the burst; 0: never
}

// begin starts the burst.
func (s *schedule) begin(now time.Duration) { s.begun, s.sent, s.due = now, 0, now }

// setPace changes what follows the burst.
func (s *schedule) setPace(pace, now time.Duration) {
	s.pace = pace
	if s.sent == len(burst) {
		s.due = s.following(now)
	}
}

func (s *schedule) following(now time.Duration) time.Duration {
	if s.pace == 0 {
		return never
	}
	return now + s.pace
}

// advance notes that what was due has been done. Of what was missed meanwhile only the
// latest counts.
func (s *schedule) advance(now time.Duration) {
	for s.sent < len(burst) && s.begun+burst[s.sent] <= now {
		s.sent++
	}
	if s.sent < len(burst) {
		s.due = s.begun + burst[s.sent]
		return
	}
	s.due = s.following(now)
}

// heldBack is the interval at which an announcement that must not be sent yet is tried again.
const heldBack = 100 * time.Millisecond

// announce sends the announcement of a claim if it is due, and returns when the next one is.
// While nothing may be answered the first waits, and others are left out.
func (l *link) announce(addr netip.Addr, v *vip, now time.Duration, mayAnswer bool) time.Duration {
	schedule := &v.announcement
	schedule.pace = l.config.AnnounceEvery
	if now < schedule.due {
		return schedule.due
	}
	if !mayAnswer && schedule.sent == 0 {
		schedule.begin(now + heldBack)
		return schedule.due
	}
	if mayAnswer {
		l.send(announcement(l.on.mac, addr))
		if addr.Is4() && schedule.sent < len(burst) && asReply[schedule.sent] {
			l.send(gratuitousReply(l.on.mac, addr))
		}
	}
	schedule.advance(now)
	return schedule.due
}

// againInterval is the least interval at which a claim is announced because another machine claims it, too.
const againInterval = 250 * time.Millisecond

// Announce announces a claim once more, for another machine that was heard to claim it and is to
// yield. It does so at most four times in a second.
func (r *Responder) Announce(subnet netip.Prefix, addr netip.Addr) {
	r.again(subnet, addr, func(s *schedule, now time.Duration) { s.due = now })
}

// AnnounceAnew announces a claim as one that has just begun, for machines that are back and may
// have claimed it meanwhile: one frame of it may be lost. It does so at most four times in a second.
func (r *Responder) AnnounceAnew(subnet netip.Prefix, addr netip.Addr) {
	r.again(subnet, addr, (*schedule).begin)
}

func (r *Responder) again(subnet netip.Prefix, addr netip.Addr, schedule func(*schedule, time.Duration)) {
	link := r.link(subnet)
	if link == nil {
		return
	}
	link.mu.Lock()
	defer link.mu.Unlock()
	now := uptime.Now()
	if v := link.vips[addr]; v != nil && v.claimed && now-v.again >= againInterval {
		v.again = now
		schedule(&v.announcement, now)
		link.work(now)
		link.nudge()
	}
}
