package watch

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/directory"
	"plinth.dev/plinth/routing"
)

// directoryPatience is for how long a part of the directory may be missing until Nodes are followed in its place. A controller makes again what
// somebody deleted, in less; and all agents of a datacenter would ask for all Nodes.
const directoryPatience = 30 * time.Second

// hood is the Nodes that a plan needs: those of the racks that share a subnet with ours, or all of them.
type hood struct {
	racks string // separated by commas; empty: none
	all   bool
}

func (h hood) needed() bool { return h.all || h.racks != "" }

// labels selects the Nodes.
func (h hood) labels() string { return h.selector(inventory.LabelRack) }

// pages selects the pages that have them.
func (h hood) pages() string {
	if h.all {
		return directory.Selector + "," + directory.LabelRack
	}
	return directory.Selector + "," + h.selector(directory.LabelRack)
}

// has reports whether the Nodes of a rack are needed.
func (h hood) has(rack string) bool {
	return h.all || slices.Contains(strings.Split(h.racks, ","), rack)
}

func (h hood) selector(label string) string {
	if h.all {
		return ""
	}
	return label + " in (" + h.racks + ")"
}

// hoodOf are the Nodes that a plan of a rack needs in a mode.
func hoodOf(inv *inventory.Inventory, mode inventory.Mode, rack string) hood {
	racks, all := routing.Neighbourhood(inv, mode, rack)
	return hood{racks: strings.Join(racks, ","), all: all}
}

// published is what the directory says.
type published struct {
	index *objectCache[indexed]
	pages *objectCache[paged] // nil: none are followed

	of        hood // that the pages are of
	stopPages context.CancelFunc
	changes   uint64 // of index and pages so far
	nodes     taking // from pages
	inPools   taking // from the index
}

// indexed is the index, or why it cannot be read.
type indexed struct {
	directory.Index
	err error
}

// paged is a page, or why it cannot be read.
type paged struct {
	directory.Page
	err error
}

// taking is whether something is taken from the directory.
type taking struct {
	on   bool
	at   uint64    // of the changes of the directory
	kept bool      // some that the directory lacks are kept, in doubt
	ends time.Time // until when it is waited for what the directory lacks; zero: it lacks nothing, or Nodes are followed in its place
}

// newIndex is the cache of an index that nobody has asked for yet.
func (s *Sources) newIndex() *objectCache[indexed] {
	next := newCache("configmaps", &s.mu, func(obj any) (x indexed) {
		if cm := obj.(*corev1.ConfigMap); cm.Name == directory.IndexName { // a fake client tells of all
			x.Index, x.err = directory.IndexIn(cm)
		}
		return x
	}, s.changed)
	next.change = func(_ string, _, now *indexed) {
		s.published.changes++
		if now != nil && now.err != nil {
			s.log.Warn("cannot read which Nodes there are", "err", now.err)
		}
	}
	return next
}

// followIndex follows the index.
func (s *Sources) followIndex(ctx context.Context) {
	byName := fields.OneTermEqualSelector("metadata.name", directory.IndexName).String()
	go follow(ctx, s.published.index, s.client.CoreV1().ConfigMaps(s.namespace), &corev1.ConfigMap{}, "", byName)
}

// followPages follows the pages of some racks, from a list on.
func (s *Sources) followPages(ctx context.Context, of hood) {
	if s.published.pages != nil && s.published.of == of {
		return
	}
	own := replace(ctx, &s.published.stopPages)
	next := newCache("nodes", &s.mu, func(obj any) (p paged) {
		cm := obj.(*corev1.ConfigMap)
		if _, page := directory.RackOf(cm.Name); page { // a fake client tells of all
			p.Page, p.err = directory.PageIn(cm)
		}
		return p
	}, s.changed)
	s.mu.Lock()
	next.change = func(_ string, _, now *paged) {
		s.published.changes++
		if now != nil && now.err != nil {
			s.log.Warn("cannot read which Nodes there are", "err", now.err)
		}
	}
	s.published.pages, s.published.of = next, of
	s.published.changes++
	s.mu.Unlock()
	go follow(own, next, s.client.CoreV1().ConfigMaps(s.namespace), &corev1.ConfigMap{}, of.pages(), "")
}

// stopFollowingPages lets go of the pages.
func (s *Sources) stopFollowingPages() {
	if s.published.pages != nil {
		s.published.stopPages()
		s.mu.Lock()
		s.published.pages, s.published.nodes = nil, taking{}
		s.mu.Unlock()
	}
}

// indexNow returns the index; false: there is none, or it cannot be read. The lock is held.
func (s *Sources) indexNow() (x directory.Index, ok bool) {
	stored, there := s.published.index.items[s.namespace+"/"+directory.IndexName]
	return stored.Index, there && stored.err == nil
}

// pagesNow returns the Nodes of all pages that a plan needs; false: one of them is missing, or cannot be read. It is known to stay so where waiting is
// of no use: there is no index, it says that a page is missing, or a newer version wrote one. The lock is held.
func (s *Sources) pagesNow() (nodes map[string]*routing.Node, whole, stays bool) {
	index, ok := s.indexNow()
	if !ok || slices.ContainsFunc(index.Missing, s.published.of.has) {
		return nil, false, true
	}
	nodes, found := map[string]*routing.Node{}, map[string]bool{}
	for key, page := range s.published.pages.items {
		rack, ok := directory.RackOf(strings.TrimPrefix(key, s.namespace+"/"))
		if !ok || page.err != nil || !s.published.of.has(rack) {
			continue
		}
		found[rack] = true
		for _, node := range page.Page {
			if nodes[node.Name] == nil || node.Rack == rack { // one that moves is in two pages for a moment
				nodes[node.Name] = node
			}
		}
	}
	for _, rack := range index.Racks {
		if s.published.of.has(rack) && !found[rack] {
			page := s.published.pages.items[s.namespace+"/"+directory.PageName(rack)]
			return nil, false, page.err != nil
		}
	}
	return nodes, true, true
}

// waits reports whether to wait for what the directory lacks, rather than to follow Nodes: not where nothing is known yet and that would be of no use,
// as before a controller of this version ever led. While it is not known what the directory has, as when a machine starts before the API server,
// nobody follows Nodes: all machines would. The lock is held.
func (s *Sources) waits(t *taking, known, stays bool, now time.Time) bool {
	switch {
	case !known:
		return true
	case !t.on && stays:
		return false
	case t.ends.IsZero():
		patience := s.Timing.Directory + rand.N(s.Timing.Directory+1)
		t.ends = now.Add(patience)
		time.AfterFunc(patience, s.changed)
	}
	return now.Before(t.ends)
}

// adjustNodes has the Nodes around this one taken from the directory, or else followed.
func (s *Sources) adjustNodes(ctx context.Context, of hood) {
	if !of.needed() {
		s.stopFollowingPages()
		s.stopFollowingNodes()
		return
	}
	s.followPages(ctx, of)
	now := time.Now()
	if s.lacksNodes(of, now) && (!s.following.nodes || s.following.nodeLabels != of.labels() || s.settles(now)) {
		s.followNodes(ctx, of.labels())
	}
}

// lacksNodes has the Nodes of the pages take the place of those that were known, if the directory has all. It reports whether they are to be followed,
// since it does not. Until that is known they stay as they were.
func (s *Sources) lacksNodes(of hood, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, doubted := &s.published.nodes, s.isDoubted(now)
	if t.at == s.published.changes && t.ends.IsZero() && (t.on || s.following.nodes) && s.following.nodeLabels == of.labels() && (!t.kept || doubted) {
		return s.following.nodes // nothing changed: most passes are about something else
	}
	known := s.published.index.synced && s.published.pages.synced
	nodes, whole, stays := s.pagesNow()
	if known && whole {
		own := nodes[s.nodeName]
		s.takeNodes(of, nodes, doubted || own == nil || !own.Created.Equal(s.known.Created))
		return false
	}
	if !s.following.nodes && s.waits(t, known, stays, now) {
		return false
	}
	*t = taking{at: s.published.changes}
	return true
}

// takeNodes has Nodes take the place of those that were known. Those that are in no page stay while it is doubted that they are gone. The lock is held.
func (s *Sources) takeNodes(of hood, nodes map[string]*routing.Node, doubted bool) {
	if s.following.nodes || s.caches.nodes == nil {
		next := newCache("nodes", &s.mu, reduceOther, s.changed)
		if s.caches.nodes != nil {
			next.items = maps.Clone(s.caches.nodes.items)
		}
		s.caches.nodes, s.caches.nextNodes = next, nil
		s.forgetOrder()
	}
	if s.following.nodes {
		s.following.stopNodes()
		s.following.nodes = false
	}
	known, keptBefore := s.caches.nodes, s.published.nodes.kept
	known.synced, s.following.nodeLabels = true, of.labels()
	s.published.nodes = taking{on: true, at: s.published.changes}
	for name, node := range nodes {
		if had, there := known.items[name]; !there || !reflect.DeepEqual(had, node) {
			known.items[name] = node
			s.nodeChanged(known, name, &node)
		}
	}
	for name := range known.items {
		switch {
		case nodes[name] != nil:
		case doubted:
			s.published.nodes.kept = true
		default:
			delete(known.items, name)
			s.nodeChanged(known, name, nil)
		}
	}
	if s.published.nodes.kept && !keptBefore {
		s.log.Warn("kept routes to Nodes that the directory lacks, since it lacks this machine's own as well, or that was gone of late", "nodes", len(nodes))
	}
}

// adjustInPools has the Nodes in pools taken from the index, or else followed.
func (s *Sources) adjustInPools(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := &s.published.inPools, time.Now()
	index, ok := s.indexNow()
	switch {
	case ok && t.on && t.at == s.published.changes:
	case ok:
		if !t.on {
			s.stopFollowingInPools()
		}
		*t = taking{on: true, at: s.published.changes}
		s.takeInPools(index.InPools)
	case s.following.stopInPools == nil && !s.waits(t, s.published.index.synced, true, now):
		*t = taking{}
		own := replace(ctx, &s.following.stopInPools)
		s.caches.inPools = s.nextInPools()
		go follow(own, s.caches.inPools, s.client.CoreV1().Nodes(), &corev1.Node{}, lb.InPoolLabel, "")
	}
}

// stopFollowingInPools ends the watch of Nodes in pools, if there is one. The lock is held.
func (s *Sources) stopFollowingInPools() {
	if s.following.stopInPools != nil {
		s.following.stopInPools()
		s.following.stopInPools = nil
	}
	s.caches.inPools = s.nextInPools()
}

// nextInPools is a cache that knows what the one before knew, and is told of no last word to that.
func (s *Sources) nextInPools() *objectCache[[]netip.Prefix] {
	next := newCache("nodes", &s.mu, reduceTaken, s.changed)
	next.change = s.takenChanged
	if before := s.caches.inPools; before != nil {
		next.items, next.synced, before.change = maps.Clone(before.items), before.synced, func(string, *[]netip.Prefix, *[]netip.Prefix) {}
	}
	return next
}

// takeInPools has the Nodes in pools that the index has take the place of those that were known. The lock is held.
func (s *Sources) takeInPools(now map[string][]netip.Prefix) {
	known := s.caches.inPools
	known.synced = true
	for name, has := range now {
		if had, there := known.items[name]; !there {
			known.items[name] = has
			known.change(name, nil, &has)
		} else if !reflect.DeepEqual(had, has) {
			known.items[name] = has
			known.change(name, &had, &has)
		}
	}
	for name := range known.items {
		if _, there := now[name]; !there {
			known.drop(name)
		}
	}
}

// WatchesNodes reports whether other Nodes are followed, since the directory lacks some. It is for the goroutine of the agent.
func (s *Sources) WatchesNodes() bool { return s.following.nodes || s.following.stopInPools != nil }

// seeDirectory notes when the API server last said anything of what is taken from the directory. The lock is held.
func (s *Sources) seeDirectory() {
	if s.published.inPools.on {
		s.caches.inPools.lastSeen = s.published.index.lastSeen
	}
	if s.published.nodes.on && s.published.pages != nil {
		s.caches.nodes.lastSeen = s.published.pages.lastSeen
	}
}
