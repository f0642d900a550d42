package watch

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wake"
)

// Timing is the time for which sources wait for objects that may not come.
type Timing struct {
	Grace  time.Duration // for Nodes that no list has, once this machine's own is back
	Secret time.Duration // for a Secret that the API server says nothing of
	Trial  time.Duration // [source.TrialGrace]

	Directory time.Duration // for what the directory of Nodes lacks
}

// Sources keep up with all that the API server says and a plan needs.
type Sources struct {
	log             *slog.Logger
	client          kubernetes.Interface
	namespace       string
	nodeName        string
	changed         func()
	FollowInventory func(ctx context.Context, rack string, set func(source.Followed, error)) error // the accepted inventory

	mu       sync.Mutex // guards the caches, and what follows
	caches   caches
	index    *offers.Index
	taken    ofPools
	doubt    doubt
	accepted accepted
	unread   unread
	known    plan.Node // as last seen: its deletion changes nothing that is announced
	version  plan.Version
	order    order

	published published

	// Set before Start, and not changed after.
	Timing   Timing
	restored restored

	// Used by the agent's goroutine alone.
	Transition plan.ModeTransition
	following  following
}

// caches are the caches of all kinds of objects. They share the lock of [Sources].
type caches struct {
	self      *objectCache[plan.Node]
	services  *objectCache[offers.Service]
	claims    *objectCache[offers.Claim]
	endpoints *objectCache[offers.EndpointSlice]
	secrets   map[string]*objectCache[map[string][]byte]
	inPools   *objectCache[[]netip.Prefix] // what each Node has of pools, of those that bear the label
	nodes     *objectCache[*routing.Node]  // nil: none are followed
	nextNodes *objectCache[*routing.Node]  // takes the place of nodes once it is filled
}

// accepted is the inventory that counts.
type accepted struct {
	inventory *inventory.Inventory
	trial     *source.Trial // whose inventory that is; nil: the accepted one
	lastSeen  time.Time     // the API server said anything about it
}

// following is the set of watches at the moment, with the functions that stop them.
type following struct {
	serviceLabels []string // keys; see followServices
	stopServices  context.CancelFunc
	rack          string
	stopRack      context.CancelFunc
	nodes         bool
	nodeLabels    string
	stopNodes     context.CancelFunc
	stopInPools   context.CancelFunc // nil: those of the directory are known
	stopSecret    map[string]context.CancelFunc
}

// secretPatience is for how long a plan waits for a Secret. It is told at once, unless
// this machine may not read it: then the sessions that need it are down, and no others.
const secretPatience = 5 * time.Second

// New returns sources that have asked nobody yet. Changed is called whenever a snapshot may be another one.
func New(log *slog.Logger, client kubernetes.Interface, namespace, nodeName string, changed func()) *Sources {
	sources := &Sources{
		log: log, client: client, namespace: namespace, nodeName: nodeName, changed: changed, accepted: accepted{lastSeen: time.Now()},
		Transition: plan.ModeTransition{Pause: plan.TransitionPause}, Timing: Timing{graceAfterDoubt, secretPatience, source.TrialGrace, directoryPatience}, index: offers.NewIndex(), order: order{moved: map[string]*routing.Node{}},
		taken: ofPools{departed: departed{since: map[netip.Prefix]time.Time{}}}, caches: caches{secrets: map[string]*objectCache[map[string][]byte]{}},
		following: following{stopSecret: map[string]context.CancelFunc{}},
	}
	sources.FollowInventory = func(ctx context.Context, rack string, set func(source.Followed, error)) error {
		return source.Follow(ctx, watchdogClient{client, sources.seeAccepted}, namespace, rack, nodeName, set)
	}
	sources.caches.self = newCache("node", &sources.mu, plan.NodeOf, changed)
	sources.caches.services = newCache("services", &sources.mu, offers.ServiceOf(nil), changed)
	sources.caches.claims = newCache("ipaddresses", &sources.mu, sources.readClaim, changed)
	sources.caches.endpoints = newCache("endpointslices", &sources.mu, offers.EndpointSliceOf(nodeName), changed)
	sources.caches.endpoints.change = sources.index.SliceChanged
	sources.caches.claims.change = func(key string, old, now *offers.Claim) {
		sources.index.ClaimChanged(key, old, now)
		sources.unread.claim(key, now)
	}
	sources.caches.inPools, sources.published.index = sources.nextInPools(), sources.newIndex()
	sources.caches.self.change = func(_ string, old, now *plan.Node) {
		if now != nil && now.Name == nodeName {
			sources.selfSeen(old, *now)
			sources.known = *now
			sources.version.Self++
		}
	}
	return sources
}

// Start follows the objects that every agent needs. Which others it follows depends on these.
func (s *Sources) Start(ctx context.Context) {
	byName := fields.OneTermEqualSelector("metadata.name", s.nodeName).String()
	go follow(ctx, s.caches.self, s.client.CoreV1().Nodes(), &corev1.Node{}, "", byName)
	s.followServices(ctx, s.restored.serviceLabels())
	go follow(ctx, s.caches.claims, s.client.NetworkingV1().IPAddresses(), &networkingv1.IPAddress{}, networkingv1.LabelManagedBy+"="+lb.ManagedBy, "")
	s.followIndex(ctx)
	go follow(ctx, s.caches.endpoints, s.client.DiscoveryV1().EndpointSlices(""), &discoveryv1.EndpointSlice{}, discoveryv1.LabelServiceName, "")
}

// Adjust follows the objects that the Node and the inventory, as they are now, make necessary.
func (s *Sources) Adjust(ctx context.Context) {
	s.mu.Lock()
	rack, inv, self := s.known.Rack, s.accepted.inventory, s.known
	s.mu.Unlock()
	if rack != "" && rack != s.following.rack {
		s.followRack(ctx, rack)
	}
	s.adjustInPools(ctx)
	if inv == nil {
		return
	}
	s.Transition.Change(plan.CarriageOf(inv), time.Now())
	if labels := inv.AdvertiseLabels(); !plan.ContainsAll(s.following.serviceLabels, labels) {
		s.followServices(ctx, labels)
	}
	s.adjustNodes(ctx, s.neighbourhood(inv))
	if m, err := inv.MachineOf(self.Identity); err == nil {
		s.followSecrets(ctx, secretsOf(inv, m))
	}
}

// Step is the step of a transition of the mode, now that all its inputs are known, and the time for which it lasts; 0: for good.
func (s *Sources) Step(now time.Time) (st plan.Step, left time.Duration) {
	s.Transition.Begin(now)
	return s.Transition.At(now)
}

// followServices follows Services with their labels of these keys, from a list on: what was kept
// of a Service says nothing of other labels. Until then what was planned holds; see missing.
func (s *Sources) followServices(ctx context.Context, labels []string) {
	own := replace(ctx, &s.following.stopServices)
	next := newCache(s.caches.services.name, &s.mu, offers.ServiceOf(labels), s.changed)
	s.mu.Lock()
	next.items, next.lastSeen, next.change = s.caches.services.items, s.caches.services.lastSeen, s.index.ServiceChanged
	s.caches.services.items, s.caches.services.change = map[string]offers.Service{}, func(string, *offers.Service, *offers.Service) {} // it may hear a last word
	s.caches.services, s.following.serviceLabels = next, labels
	s.mu.Unlock()
	loadBalancers := fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)).String()
	go follow(own, next, s.client.CoreV1().Services(""), &corev1.Service{}, "", loadBalancers)
}

// replace ends what was followed before, if anything was, and returns the context of what is followed in its place.
func replace(ctx context.Context, stop *context.CancelFunc) context.Context {
	if *stop != nil {
		(*stop)()
	}
	own, cancel := context.WithCancel(ctx)
	*stop = cancel
	return own
}

func (s *Sources) followRack(ctx context.Context, rack string) {
	s.following.rack = rack
	own := replace(ctx, &s.following.stopRack)
	go func() {
		for own.Err() == nil {
			err := s.FollowInventory(own, rack, func(f source.Followed, err error) { s.Accept(own, f, err) })
			if own.Err() == nil {
				s.log.Warn("stopped following the accepted inventory; starting again", "rack", rack, "err", err)
				wake.After(own, time.Second)
			}
		}
	}()
}

// Accept takes an inventory, or the reason why what is stored of it cannot be read: the last
// one then stays, or that of the process before this one. What this Node tries counts in its
// place, for its time: nobody may be there to end it.
func (s *Sources) Accept(ctx context.Context, followed source.Followed, err error) {
	s.mu.Lock()
	if ctx.Err() == nil {
		s.unread.inventory = err
		switch {
		case err == nil:
			s.accepted.inventory, s.accepted.trial = followed.Inventory, followed.Trial
			s.tryOut(ctx, followed)
		case s.accepted.inventory == nil && s.restored.hasRack(s.known.Rack):
			s.accepted.inventory = s.restored.Inventory
		}
	}
	s.mu.Unlock()
	s.changed()
}

// clocksDiffer is how far this machine's clock may be ahead of the controller's.
const clocksDiffer = 10 * time.Minute

// tryOut has the inventory of a trial count until the trial is over.
func (s *Sources) tryOut(ctx context.Context, followed source.Followed) {
	if followed.Trial == nil {
		return
	}
	if time.Since(followed.Trial.Until) > clocksDiffer {
		s.accepted.trial = nil // nobody has taken it away for long
		return
	}
	left := followed.Inventory.Safety.Trial() + s.Timing.Trial // from now, whatever the controller's clock says
	s.accepted.inventory = followed.Trial.Inventory
	time.AfterFunc(left, func() {
		s.mu.Lock()
		over := ctx.Err() == nil && s.accepted.trial == followed.Trial
		if over {
			s.log.Warn("returned to the former terms: nobody has ended the trial of new ones", "trial", followed.Trial.ID)
			s.accepted.inventory, s.accepted.trial = followed.Inventory, nil
		}
		s.mu.Unlock()
		if over {
			s.changed()
		}
	})
}

func (s *Sources) followSecrets(ctx context.Context, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, stop := range s.following.stopSecret {
		if !slices.Contains(names, name) {
			stop()
			delete(s.following.stopSecret, name)
			delete(s.caches.secrets, name)
			s.version.Secrets++
		}
	}
	for _, name := range names {
		if s.following.stopSecret[name] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		s.following.stopSecret[name], s.caches.secrets[name] = stop, newCache("secrets", &s.mu, reduceSecret, s.changed)
		time.AfterFunc(s.Timing.Secret, s.changed)
		s.caches.secrets[name].change = func(string, *map[string][]byte, *map[string][]byte) { s.version.Secrets++ }
		s.caches.secrets[name].believe = func(map[string]bool) bool {
			s.version.Secrets++ // what was restored counts no more
			return true
		}
		go follow(own, s.caches.secrets[name], s.client.CoreV1().Secrets(s.namespace), &corev1.Secret{}, "",
			fields.OneTermEqualSelector("metadata.name", name).String())
	}
}

// Snapshot returns the inputs of one moment, and reports what is still missing.
func (s *Sources) Snapshot() (in plan.Inputs, missing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.caches.nextNodes != nil && s.caches.nextNodes.synced {
		s.caches.nodes, s.caches.nextNodes = s.caches.nextNodes, nil
		s.forgetOrder()
	}
	if missing := s.missing(); missing != "" {
		return plan.Inputs{}, missing
	}
	if s.version.Inventory != s.accepted.inventory {
		s.index.FollowLinks(plan.SubnetsOf(s.accepted.inventory.Links()))
	}
	s.version.Inventory = s.accepted.inventory
	offers := s.index.All()
	s.version.Offers = s.index.Changes()
	taken := s.takenNow(time.Now()) // it may be another version
	in = plan.Inputs{
		Inventory: s.accepted.inventory, Self: s.known, Nodes: s.neighbours(), Offers: offers, Passwords: s.passwords(), Taken: taken, Version: s.version, Trial: s.accepted.trial,
	}
	return in, ""
}

// missing names the objects that the API server has not listed yet.
func (s *Sources) missing() string {
	if s.accepted.inventory == nil {
		if s.known.Name == "" {
			return "this machine's Node"
		}
		if s.known.Rack == "" {
			return "the label " + inventory.LabelRack + " on this machine's Node"
		}
		if s.unread.inventory != nil {
			return "an inventory that this agent can read: " + s.unread.inventory.Error()
		}
		return "the accepted inventory"
	}
	if of := s.neighbourhood(s.accepted.inventory); of.needed() && !s.nodesAre(of.labels()) {
		return "the nodes" // of another mode or rack; a plan with the old ones would cut the new ones off
	}
	for _, x := range []struct {
		what   string
		synced bool
	}{{"the Services", s.caches.services.synced}, {"the IPAddresses", s.caches.claims.synced}, {"the EndpointSlices", s.caches.endpoints.synced}, {"the Nodes in pools", s.caches.inPools.synced}} {
		if !x.synced {
			return x.what
		}
	}
	for name, m := range s.caches.secrets {
		if !m.synced && time.Since(m.lastSeen) < s.Timing.Secret {
			return "Secret " + name
		}
	}
	return ""
}

// passwords returns the passwords in the Secrets, or those that the process before this one knew of Secrets that are not listed yet.
func (s *Sources) passwords() map[inventory.SecretKey]bgp.Password {
	out := map[inventory.SecretKey]bgp.Password{}
	for key, password := range s.restored.Passwords {
		if m := s.caches.secrets[key.Secret]; m != nil && !m.synced {
			out[key] = password
		}
	}
	for name, m := range s.caches.secrets {
		for key, value := range m.items[s.namespace+"/"+name] {
			out[inventory.SecretKey{Secret: name, Key: key}] = bgp.Password(inventory.PasswordIn(string(value)))
		}
	}
	return out
}

func (s *Sources) seeAccepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted.lastSeen = time.Now()
}

// LastSeen is the age of the latest word about each kind of object, or for how long it is
// followed in vain. Of the Secrets it is that of the one that was silent the longest, and of the other Nodes that of those in pools or of
// those around this one.
func (s *Sources) LastSeen() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeDirectory()
	out := map[string]time.Duration{
		s.caches.self.name: time.Since(s.caches.self.lastSeen), s.caches.services.name: time.Since(s.caches.services.lastSeen),
		s.caches.claims.name: time.Since(s.caches.claims.lastSeen), s.caches.endpoints.name: time.Since(s.caches.endpoints.lastSeen),
		s.caches.inPools.name: time.Since(s.caches.inPools.lastSeen), "configmaps": time.Since(s.accepted.lastSeen),
	}
	if s.caches.nodes != nil {
		out[s.caches.nodes.name] = max(out[s.caches.nodes.name], time.Since(s.caches.nodes.lastSeen))
	}
	for _, m := range s.caches.secrets {
		out[m.name] = max(out[m.name], time.Since(m.lastSeen))
	}
	return out
}

// Self returns the Node as it is now.
func (s *Sources) Self() (plan.Node, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.caches.self.items[s.nodeName]
	return n, ok
}

// SelfLastSeen is how long ago the API server last said anything about this machine's Node.
func (s *Sources) SelfLastSeen() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.caches.self.lastSeen)
}

// OwnerOf is the Node that the claim of a VIP says answers for it; empty: none.
func (s *Sources) OwnerOf(vip netip.Addr) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caches.claims.items[vip.String()].Owner
}

// secretsOf are the names of the Secrets that the machine's sessions take passwords
// from, sorted.
func secretsOf(inv *inventory.Inventory, m inventory.Machine) []string {
	var names []string
	for _, s := range inv.Sessions(m) {
		if s.Password.Secret != "" {
			names = append(names, s.Password.Secret)
		}
	}
	return inventory.SortedOnce(names)
}

// reduceSecret keeps the values of a Secret: the agent follows only those that the
// inventory takes passwords from.
func reduceSecret(obj any) map[string][]byte { return obj.(*corev1.Secret).Data }
