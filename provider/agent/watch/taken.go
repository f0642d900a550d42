package watch

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/directory"
)

// ofPools are the addresses of Nodes that pools contain, as of a version.
type ofPools struct {
	list []netip.Prefix // never changed; nil: it is to be made
	at   uint64         // a [plan.Version.Taken]

	departed departed
}

// departed are the addresses of pools that Nodes had which bear the label no more, or are gone.
type departed struct {
	since       map[netip.Prefix]time.Time
	forgets     *time.Timer // when the next of these is forgotten; nil: none ever was to be
	syncedSince time.Time   // since when Nodes are in no doubt; zero: they are
}

// takenChanged records that the addresses of one Node have changed. Those that it had count for a while.
func (s *Sources) takenChanged(_ string, old, _ *[]netip.Prefix) {
	s.version.Taken++
	if old != nil {
		s.depart(*old)
	}
}

// depart keeps addresses of pools that Nodes had for a while: these bear no label any more, or bore it when the process before this one ended.
func (s *Sources) depart(had []netip.Prefix) {
	now := time.Now()
	for _, p := range had {
		s.taken.departed.since[p] = now
	}
}

// forget lets go of what departed, once Nodes were in no doubt for s.Timing.Grace since then. So long a controller may be away: it labels
// again what lost its label to a restored backup, and a Node that was deleted and made again by its kubelet.
func (s *Sources) forget(now time.Time) {
	if !s.isSynced(now) {
		s.taken.departed.syncedSince = time.Time{}
		return
	}
	if s.taken.departed.syncedSince.IsZero() {
		s.taken.departed.syncedSince = now
	}
	var next time.Duration
	for p, at := range s.taken.departed.since {
		switch left := s.Timing.Grace - now.Sub(later(at, s.taken.departed.syncedSince)); {
		case left <= 0:
			delete(s.taken.departed.since, p)
			s.version.Taken++
		case next == 0 || left < next:
			next = left
		}
	}
	if s.taken.departed.forgets != nil {
		s.taken.departed.forgets.Stop()
	}
	if next > 0 {
		s.taken.departed.forgets = time.AfterFunc(next, s.changed)
	}
}

// later is the later one of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// takenNow returns the addresses of Nodes that pools contain: of Nodes that bear the label, and for a while of those that bore it. The lock is held.
func (s *Sources) takenNow(now time.Time) []netip.Prefix {
	s.forget(now)
	if s.taken.list != nil && s.taken.at == s.version.Taken {
		return s.taken.list
	}
	all := slices.AppendSeq([]netip.Prefix{}, maps.Keys(s.taken.departed.since))
	for _, has := range s.caches.inPools.items {
		all = append(all, has...)
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	s.taken.list, s.taken.at = slices.Compact(all), s.version.Taken
	return s.taken.list
}

// selfSeen notes when this machine's Node is back after it was gone, or is another one: the API server has lost its store, or has an old
// one, and the Nodes of the other machines come back one by one, with the labels that the controller gives them.
func (s *Sources) selfSeen(old *plan.Node, now plan.Node) {
	if wasThere := s.known.Name != ""; wasThere && (old == nil || !now.Created.Equal(old.Created)) {
		s.doubt.returned = time.Now()
		time.AfterFunc(s.Timing.Grace, s.changed)
	}
}

// IsSynced reports whether Nodes are as they should be: this machine's is there, and was not gone of late, those in pools are listed, and
// the pools are the ones that the controller labels by, for this agent can read the inventory.
func (s *Sources) IsSynced(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isSynced(now)
}

// isSynced is IsSynced with the lock held.
func (s *Sources) isSynced(now time.Time) bool {
	return !s.isDoubted(now) && s.caches.inPools.synced && s.unread.inventory == nil
}

// isDoubted reports whether Nodes that are told of no more may be there all the same: this machine's is gone, or came back of late. The lock is held.
func (s *Sources) isDoubted(now time.Time) bool {
	_, there := s.caches.self.items[s.nodeName]
	return !there || !s.doubt.returned.IsZero() && now.Sub(s.doubt.returned) < s.Timing.Grace
}

// reduceTaken is [directory.TakenOf].
func reduceTaken(obj any) []netip.Prefix { return directory.TakenOf(obj.(*corev1.Node)) }
