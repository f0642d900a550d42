package vip

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// claimStore is what a reflector puts the IPAddress objects of ours into: the ledger
// learns what they say. Of the objects themselves it remembers which there were, so
// that it notices in the next list which are gone.
type claimStore struct {
	balancer *Controller
	there    map[netip.Addr]types.UID
	version  string        // the newest resource version that was seen
	filled   chan struct{} // closed when the first list was taken in
}

var _ cache.ReflectorStore = (*claimStore)(nil)

func newClaimStore(b *Controller) *claimStore {
	return &claimStore{balancer: b, there: map[netip.Addr]types.UID{}, filled: make(chan struct{})}
}

// Add takes in an object that is new.
func (s *claimStore) Add(obj any) error {
	if a, o, ok := addressOf(obj); ok {
		s.there[a], s.version = o.UID, later(s.version, o.ResourceVersion)
		s.balancer.learn(a, o, false)
	}
	return nil
}

// Update takes in an object that has changed.
func (s *claimStore) Update(obj any) error { return s.Add(obj) }

// Delete takes in that an object is gone.
func (s *claimStore) Delete(obj any) error {
	if a, o, ok := addressOf(obj); ok {
		delete(s.there, a)
		s.version = later(s.version, o.ResourceVersion)
		s.balancer.vanished(a, o.UID)
	}
	return nil
}

// Replace takes in a list of all objects. A list never goes back of itself: one that is
// older than what was seen is of another history, and does not overwrite the proof of that.
func (s *claimStore) Replace(list []any, version string) error {
	if newer(s.version, version) {
		s.balancer.listWentBack(s.version, version)
		return nil
	}
	before := s.there
	s.version = later(s.version, version)
	s.there = make(map[netip.Addr]types.UID, len(list))
	for _, obj := range list {
		_ = s.Add(obj) // never fails
	}
	for a, uid := range before {
		if _, still := s.there[a]; !still {
			s.balancer.vanished(a, uid)
		}
	}
	if !closed(s.filled) {
		close(s.filled)
	}
	return nil
}

// Resync does nothing: the ledger is compared with a live list from time to time.
func (s *claimStore) Resync() error { return nil }

func addressOf(obj any) (netip.Addr, *networkingv1.IPAddress, bool) {
	o, ok := obj.(*networkingv1.IPAddress)
	if !ok {
		return netip.Addr{}, nil, false
	}
	a, err := netip.ParseAddr(o.Name)
	return a, o, err == nil
}
