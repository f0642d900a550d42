package watch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/directory"
	"plinth.dev/plinth/routing"
)

// graceAfterDoubt is for how long Nodes that no list has are kept once this machine's own
// Node is back: those of the other machines come back one by one.
const graceAfterDoubt = 5 * time.Minute

// order is the other Nodes by name.
type order struct {
	others []*routing.Node          // for version.Nodes; neither it nor a Node is ever changed
	moved  map[string]*routing.Node // that others does not know yet; nil: gone
}

// doubt is whether what is said of Nodes is believed: the API server may have lost its store, or have an old one.
type doubt struct {
	returned time.Time // since when this machine's Node is back; zero: it was not gone
	listed   bool      // the latest list of Nodes lacked this machine's own
	back     time.Time // since when that is there again; zero: no doubt, or it is not
}

// followNodes follows the Nodes that bear the labels, from a list on. What was known goes
// when that list is believed. Where the same ones were followed, it holds until then.
func (s *Sources) followNodes(ctx context.Context, labels string) {
	own := replace(ctx, &s.following.stopNodes)
	next := newCache("nodes", &s.mu, reduceOther, s.changed)
	next.change = func(name string, _, now **routing.Node) { s.nodeChanged(next, name, now) }
	next.believe = func(there map[string]bool) bool { return s.believeNodes(next, there) }
	s.mu.Lock()
	if s.caches.nodes != nil {
		next.items, next.lastSeen, next.synced = maps.Clone(s.caches.nodes.items), s.caches.nodes.lastSeen, s.nodesAre(labels)
	}
	s.following.nodeLabels, s.following.nodes, s.caches.nextNodes = labels, true, next
	s.doubt.listed, s.doubt.back = false, time.Time{}
	s.mu.Unlock()
	go follow(own, next, s.client.CoreV1().Nodes(), &corev1.Node{}, labels, "")
}

// stopFollowingNodes lets go of all Nodes but this machine's.
func (s *Sources) stopFollowingNodes() {
	if s.following.nodes {
		s.following.stopNodes()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following.nodes = false; s.caches.nodes != nil || s.caches.nextNodes != nil {
		s.caches.nodes, s.caches.nextNodes = nil, nil
		s.forgetOrder()
	}
}

// NodeStore is the store that the API server's answers about the other Nodes go to; nil: no Nodes are followed.
func (s *Sources) NodeStore() cache.ReflectorStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.caches.nodes == nil {
		return nil
	}
	return s.caches.nodes
}

// believeNodes doubts a list of Nodes that lacks the one of this machine, which is there:
// the API server has lost its store, or has an old one. Pods run on for all that. A Node
// that is deleted, and so told of one by one, goes in any case.
func (s *Sources) believeNodes(from *objectCache[*routing.Node], there map[string]bool) bool {
	own := there[s.nodeName] && !s.isDoubted(time.Now())
	if from == s.caches.nodes || from == s.caches.nextNodes {
		s.doubt.listed = !own
	}
	if !own {
		s.log.Warn("kept routes to Nodes that a list lacks, since it lacks this machine's own as well, or that was gone of late", "nodes", len(there))
	}
	return own
}

// settles reports whether Nodes are to be listed again after a doubt: a watch never says
// which of those that were kept are gone for good.
func (s *Sources) settles(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, there := s.caches.self.items[s.nodeName]; {
	case !s.doubt.listed || !there:
		s.doubt.back = time.Time{}
		return false
	case s.doubt.back.IsZero():
		s.doubt.back = now
		time.AfterFunc(s.Timing.Grace, s.changed)
		return false
	}
	return now.Sub(s.doubt.back) >= s.Timing.Grace
}

// neighbours returns the other Nodes by name. One that changed among thousands costs
// what copying pointers costs.
func (s *Sources) neighbours() []*routing.Node {
	switch {
	case s.caches.nodes == nil:
		return nil
	case s.order.others == nil || len(s.order.moved) > len(s.order.others)/8:
		s.order.others = slices.SortedFunc(maps.Values(s.caches.nodes.items), plan.CompareNames)
	case len(s.order.moved) > 0:
		s.order.others = slices.Clone(s.order.others)
		for name, n := range s.order.moved {
			s.order.others = put(s.order.others, name, n)
		}
	}
	s.order.moved = map[string]*routing.Node{}
	return s.order.others
}

// put puts a Node into a sorted list, or removes the one of that name.
func put(sorted []*routing.Node, name string, node *routing.Node) []*routing.Node {
	i, there := slices.BinarySearchFunc(sorted, name, func(n *routing.Node, name string) int { return strings.Compare(n.Name, name) })
	switch {
	case node == nil && there:
		return slices.Delete(sorted, i, i+1)
	case node == nil:
		return sorted
	case there:
		sorted[i] = node
		return sorted
	}
	return slices.Insert(sorted, i, node)
}

// forgetOrder invalidates the order of the Nodes, since they are others than they were.
func (s *Sources) forgetOrder() {
	s.order.others = nil
	s.order.moved = map[string]*routing.Node{}
	s.version.Nodes++
}

// nodeChanged records that one Node is not as it was. A cache that others have taken the
// place of may still hear a last word, and one that is yet to take it counts as a whole.
func (s *Sources) nodeChanged(from *objectCache[*routing.Node], name string, now **routing.Node) {
	if from != s.caches.nodes {
		return
	}
	s.order.moved[name] = nil
	if now != nil {
		s.order.moved[name] = *now
	}
	s.version.Nodes++
}

// neighbourhood selects the Nodes that are needed now, whatever mode is to come.
func (s *Sources) neighbourhood(inv *inventory.Inventory) hood {
	st, _ := s.Transition.At(time.Now())
	return hoodOf(inv, st.Needed(), s.following.rack)
}

func (s *Sources) nodesAre(labels string) bool {
	return s.caches.nodes != nil && s.caches.nextNodes == nil && s.following.nodeLabels == labels
}

// reduceOther is [directory.NodeOf].
func reduceOther(obj any) *routing.Node { return new(directory.NodeOf(obj.(*corev1.Node))) }
