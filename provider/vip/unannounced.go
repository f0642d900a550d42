package vip

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/preview"
	"plinth.dev/plinth/wake"
)

// Unannounced returns which of the VIPs that Services hold nobody announces.
type Unannounced func(ctx context.Context, held map[lb.ServiceKey][]netip.Addr) ([]preview.Unannounced, error)

// How often it is asked who announces what: it takes a quarter of a second of one processor with
// 1,600 machines and 3,000 Services.
const (
	reviewEvery  = 5 * time.Second  // at most
	reviewShare  = 10               // and so many times as far apart as it takes
	reviewLatest = 20 * time.Second // and no further apart for that
	reviewAlways = time.Minute      // at least
	// reviewDisputed is how often at most where somebody else answers for a VIP.
	reviewDisputed = 500 * time.Millisecond
	tellAtOnce     = 500 // Services at most that are queued after one review
	tellWhenBusy   = 50  // the same while Services wait: who gets a VIP comes first
)

// reasonAnnounced is the reason of the Event that a VIP is announced again.
const reasonAnnounced = "VIPAnnounced"

// AnnouncementsChanged signals that something has changed that announcements depend on. It never
// blocks.
func (b *statuses) AnnouncementsChanged() {
	b.homes.look()
	wake.Up(b.announcementsChanged)
}

// AnnouncementsDisputed says the same of what people are to be told at once: somebody else answers for a VIP. It
// never blocks.
func (b *statuses) AnnouncementsDisputed() { wake.Up(b.announcementsDisputed) }

// followAnnouncements reports to Services which of their VIPs nobody announces, until ctx ends.
func (b *Controller) followAnnouncements(ctx context.Context) {
	if b.byStock || b.cluster.Unannounced == nil {
		return
	}
	var failed string
	for ctx.Err() == nil {
		began := time.Now()
		next, err := b.reviewAnnouncements(ctx)
		switch {
		case err == nil:
			failed = ""
		case err.Error() != failed && ctx.Err() == nil:
			failed = err.Error()
			b.log.Warn("cannot tell which VIPs nobody announces", "err", err)
		}
		pause := pauseAfter(time.Since(began), err, b.reviewEvery)
		b.pauseReviews(ctx, pause, max(0, min(cmp.Or(next, reviewAlways), reviewAlways)-pause))
	}
}

// pauseAfter is how long nothing is reviewed after a review that took so long. One that failed has
// waited for informers, and so may the first that succeeds.
func pauseAfter(took time.Duration, err error, every time.Duration) time.Duration {
	if err != nil {
		return every
	}
	return max(every, min(reviewShare*took, reviewLatest))
}

// pauseReviews waits, and then for a change, for so long at most.
func (b *statuses) pauseReviews(ctx context.Context, least, most time.Duration) {
	wake.After(ctx, min(least, reviewDisputed))
	select {
	case <-ctx.Done():
	case <-b.announcementsDisputed:
		return
	case <-time.After(max(0, least-reviewDisputed)):
	}
	pause(ctx, most, b.announcementsChanged)
}

// reviewAnnouncements finds out which VIPs nobody announces, and queues the Services that are to
// be told, or are told what is no longer so. It returns when it is to be called again if nothing
// changes; 0: no sooner than always.
func (b *Controller) reviewAnnouncements(ctx context.Context) (next time.Duration, err error) {
	all, err := b.cluster.Unannounced(ctx, b.heldByService())
	if err != nil {
		return 0, err
	}
	next = b.announcements.observe(b.now(), all)
	if !b.queueUntold() {
		next = 1 // the rest, after the pause
	}
	return next, nil
}

// heldByService are the VIPs that each Service holds.
func (b *store) heldByService() map[lb.ServiceKey][]netip.Addr {
	return ask(b, func(s *ipam.State) map[lb.ServiceKey][]netip.Addr {
		held := map[lb.ServiceKey][]netip.Addr{}
		for _, c := range s.Holdings() {
			for _, h := range c.Holders {
				held[h.Service] = append(held[h.Service], c.Addr)
			}
		}
		return held
	})
}

// queueUntold queues Services whose status does not say what is known of their announcements, and
// reports whether these were all: many that lose their endpoints at once are told in turn.
func (b *statuses) queueUntold() bool {
	most := tellAtOnce
	if b.queue.Len() > 0 {
		most = tellWhenBusy
	}
	all, _ := b.services.List(labels.Everything()) // a cache never fails
	queued := 0
	for _, svc := range all {
		if !b.isOurs(svc) || announcedPatch(svc, b.announcements.said(keyOf(svc)), b.now()) == nil {
			continue
		}
		if queued++; queued > most {
			return false
		}
		b.queue.Add(keyOf(svc).String())
	}
	return true
}

// announcedPatch is the entry of a status's conditions that has [lb.VIPAnnounced] say what is
// known; nil: it does. A condition that stays with its reason keeps the time since when.
func announcedPatch(svc *v1.Service, announcement announcement, now time.Time) any {
	old := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAnnounced)
	switch {
	case !announcement.known, announcement.reason == "" && old == nil:
		return nil
	case announcement.reason == "":
		return withoutCondition(lb.VIPAnnounced)
	}
	condition := metav1.Condition{
		Type: lb.VIPAnnounced, Status: metav1.ConditionFalse, Reason: string(announcement.reason), Message: announcement.message,
		LastTransitionTime: metav1.Time{Time: now.Truncate(time.Second)},
	}
	if old != nil && old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	if old != nil && *old == condition {
		return nil
	}
	return condition
}

// recordAnnounced records an Event when the announcements of a Service were told otherwise than
// before: another reason, or none any more.
func (b *statuses) recordAnnounced(svc *v1.Service, announcement announcement) {
	old := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAnnounced)
	switch {
	case !announcement.known:
	case announcement.reason == "" && old != nil:
		b.cluster.Recorder.Event(svc, v1.EventTypeNormal, reasonAnnounced, "all VIPs are announced again")
	case announcement.reason != "" && (old == nil || old.Reason != string(announcement.reason)):
		b.cluster.Recorder.Event(svc, v1.EventTypeWarning, string(announcement.reason), inventory.ShortenText(announcement.message, maxEvent))
	}
}
