package importer

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

// cilium is the API group of Cilium's resources.
const cilium = "cilium.io"

// ciliumKinds are Cilium's resources as of v1.20 that say something of addresses and routers.
var ciliumKinds = slices.Concat(kindsOf(cilium, "v2", "CiliumLoadBalancerIPPool", "CiliumBGPClusterConfig", "CiliumBGPPeerConfig", "CiliumBGPAdvertisement", "CiliumBGPNodeConfigOverride"),
	kindsOf(cilium, "v2alpha1", "CiliumL2AnnouncementPolicy"))

// Labels by which a selector of Cilium's means a Service itself.
const (
	ciliumNamespace = "io.kubernetes.service.namespace"
	ciliumName      = "io.kubernetes.service.name"
)

// labelNamespace is the name of a Namespace, which each bears as a label.
const labelNamespace = "kubernetes.io/metadata.name"

// ciliumPoolSpec and its like have the names of Cilium's own types, which are in a module of hundreds of packages.
type ciliumPoolSpec struct {
	ServiceSelector   *metav1.LabelSelector `json:"serviceSelector"`
	AllowFirstLastIPs string                `json:"allowFirstLastIPs"`
	Disabled          bool                  `json:"disabled"`
	Blocks            []struct {
		CIDR  string `json:"cidr"`
		Start string `json:"start"`
		Stop  string `json:"stop"`
	} `json:"blocks"`
}

type ciliumPolicySpec struct {
	NodeSelector    *metav1.LabelSelector `json:"nodeSelector"`
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector"`
	LoadBalancerIPs bool                  `json:"loadBalancerIPs"`
}

// ciliumObject is any of them.
type ciliumObject[T any] struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     T                 `json:"spec"`
}

// ciliumReader carries Cilium's resources over.
type ciliumReader struct {
	*draft
	places  places
	configs []*ciliumConfig
	pools   []ciliumPool
	noBGP   bool         // Cilium has no sessions, and a policy answers
	says    []*statement // each of all pools
}

type ciliumPool struct {
	object *object
	pool   inventory.Pool
}

func readCilium(draft *draft) {
	reader := &ciliumReader{draft: draft}
	draft.pass(cilium, "CiliumBGPNodeConfig", "CiliumNode") // Cilium makes them
	for _, o := range reader.of(cilium, "CiliumBGPNodeConfigOverride") {
		reader.leaveOut(o, "spec", NoCounterpart, "settings of one machine's sessions: the router ID is its first IPv4 address, sessions come from its address in the router's subnet, and an AS number is a rack's (asn)")
	}
	clusters := decodeAll[ciliumClusterSpec](reader, "CiliumBGPClusterConfig")
	policies := decodeAll[ciliumPolicySpec](reader, "CiliumL2AnnouncementPolicy")
	var selecting []inventory.Selector
	for _, c := range clusters {
		selecting = append(selecting, reader.nodes(c.value.Spec.NodeSelector)...)
	}
	for _, p := range policies {
		selecting = append(selecting, reader.nodes(p.value.Spec.NodeSelector)...)
	}
	reader.places = placesOf(draft, selecting)
	reader.readConfigs()
	for _, c := range clusters {
		reader.cluster(c.object, c.value.Spec)
	}
	reader.leaveOutUnused()
	reader.readPools()
	reader.noBGP = len(clusters) == 0 && slices.ContainsFunc(policies, func(p ciliumDecoded[ciliumPolicySpec]) bool {
		return p.value.Spec.LoadBalancerIPs && !reader.places.nobody(reader.nodes(p.value.Spec.NodeSelector))
	})
	told := reader.advertise()
	for i := range reader.pools {
		reader.unite(reader.pools[i].object, &reader.pools[i].pool, reader.says)
	}
	reader.tellIdle(reader.says)
	answered := reader.answer(policies, told)
	for _, p := range reader.pools {
		if !told && !answered {
			reader.note(p.object, "", Differs, "no advertisement or policy that was read announces it; Plinth does. Give them to the import, too, or say state: disabled")
		}
		reader.inv.Pools = append(reader.inv.Pools, p.pool)
	}
}

// ciliumDecoded is an object with what stands in it.
type ciliumDecoded[T any] struct {
	object *object
	value  *ciliumObject[T]
}

func decodeAll[T any](r *ciliumReader, kind string) (all []ciliumDecoded[T]) {
	for o, v := range decoded[ciliumObject[T]](r.draft, cilium, kind) {
		o.mark(meaningless, "metadata.name")
		all = append(all, ciliumDecoded[T]{o, v})
	}
	return all
}

// nodes is a selector of Nodes; none: all.
func (r *ciliumReader) nodes(s *metav1.LabelSelector) []inventory.Selector {
	if s == nil {
		return nil
	}
	return []inventory.Selector{selector(*s)}
}

// readPools carries pools over, without their advertisements.
func (r *ciliumReader) readPools() {
	for _, p := range decodeAll[ciliumPoolSpec](r, "CiliumLoadBalancerIPPool") {
		object, spec := p.object, p.value.Spec
		pool := newPool(r.name(object, poolName, "Services that ask for it have to ask for the other name"))
		object.mark(carried, "metadata.name", "spec.blocks", "spec.serviceSelector")
		pool.Ranges = r.blocks(object, pool.Name, spec)
		if len(pool.Ranges) == 0 {
			r.leaveOutPool(object, "spec.blocks")
			continue
		}
		object.mark(meaningless, "spec.disabled", "spec.allowFirstLastIPs")
		if spec.Disabled {
			pool.State = inventory.PoolDraining
			object.mark(carried, "spec.disabled")
		}
		wide := func(one inventory.Range) bool { return one.Inner() != one }
		if spec.AllowFirstLastIPs == "No" && slices.ContainsFunc(pool.Ranges, wide) {
			pool.SkipFirstLast = true
			object.mark(carried, "spec.allowFirstLastIPs")
		}
		r.selectServices(object, spec.ServiceSelector, &pool)
		r.comment("spec.pools["+pool.Name+"]", object)
		r.pools = append(r.pools, ciliumPool{object, pool})
	}
}

func (r *ciliumReader) blocks(object *object, pool string, spec ciliumPoolSpec) (all []inventory.Range) {
	for i, block := range spec.Blocks {
		path := fmt.Sprintf("spec.blocks[%d]", i)
		text := block.CIDR
		if text == "" && block.Start != "" {
			text = block.Start
			if block.Stop != "" {
				text += "-" + block.Stop
			}
		}
		one, err := r.takeRange(text, pool)
		if err != nil {
			r.markAndNote(object, path, NotValid, fmt.Sprintf("%v: it is left out", err))
			continue
		}
		if block.CIDR != "" {
			object.mark(meaningless, path+".start", path+".stop")
		}
		all = append(all, one)
	}
	return all
}

// selectServices sets the Services that a pool is for: by their Namespaces and by their labels, as far as the selector asks for these.
func (r *ciliumReader) selectServices(object *object, s *metav1.LabelSelector, to *inventory.Pool) {
	if s == nil {
		return
	}
	labels, special := ownLabels(selector(*s))
	for _, req := range special {
		switch {
		case req.Key == ciliumNamespace && req.Operator == inventory.OpIn && len(to.Namespaces) == 0:
			to.Namespaces = slices.Compact(slices.Sorted(slices.Values(req.Values)))
		case req.Key == ciliumNamespace && req.Operator == inventory.OpNotIn && len(to.NamespaceSelectors) == 0:
			to.NamespaceSelectors = []inventory.Selector{{MatchExpressions: []inventory.Requirement{{Key: labelNamespace, Operator: inventory.OpNotIn, Values: req.Values}}}}
		case req.Operator == inventory.OpExists:
		default:
			to.AutoAssign = false
			r.markAndNote(object, "spec.serviceSelector", NoCounterpart, fmt.Sprintf("%s %s %s: Plinth chooses no Services so. The pool is for those that ask for it (plinth.dev/pool); or reserve addresses for them (reserved)", req.Key, req.Operator, strings.Join(req.Values, ", ")))
		}
	}
	if len(to.Namespaces) > 0 && len(to.NamespaceSelectors) > 0 { // of the two one has to match in an inventory, and both in Cilium
		but := to.NamespaceSelectors[0].MatchExpressions[0].Values
		to.Namespaces = slices.DeleteFunc(to.Namespaces, func(name string) bool { return slices.Contains(but, name) })
		to.NamespaceSelectors = nil
		if len(to.Namespaces) == 0 {
			to.AutoAssign = false
			r.markAndNote(object, "spec.serviceSelector", NotValid, "chooses no namespace at all: the pool is for those that ask for it (plinth.dev/pool)")
		}
	}
	if !labels.Empty() {
		to.Selectors = []inventory.Selector{labels}
	}
}

// ownLabels splits a selector of Services into what it asks of labels, and of what the Service itself is.
func ownLabels(selector inventory.Selector) (labels inventory.Selector, special []inventory.Requirement) {
	for _, key := range []string{ciliumNamespace, ciliumName} {
		if value, ok := selector.MatchLabels[key]; ok {
			special = append(special, inventory.Requirement{Key: key, Operator: inventory.OpIn, Values: []string{value}})
		}
	}
	for key, value := range selector.MatchLabels {
		if key != ciliumNamespace && key != ciliumName {
			put(&labels.MatchLabels, key, value)
		}
	}
	for _, req := range selector.MatchExpressions {
		if req.Key == ciliumNamespace || req.Key == ciliumName {
			special = append(special, req)
			continue
		}
		labels.MatchExpressions = append(labels.MatchExpressions, req)
	}
	return labels, special
}

// announced returns the inventory's selector for one of advertisements and policies, where that is one of labels alone.
func (r *ciliumReader) announced(object *object, path string, s *metav1.LabelSelector) inventory.Selector {
	if s == nil {
		return inventory.Selector{}
	}
	labels, special := ownLabels(selector(*s))
	if len(special) > 0 {
		r.markAndNote(object, path, Differs, "advertise.serviceSelector is of labels alone, and takes no notice of namespaces and names of Services: a pool of their own, with namespaces, does it")
	}
	return labels
}

// answer announces pools on the link where policies say so, and nothing says BGP.
func (r *ciliumReader) answer(policies []ciliumDecoded[ciliumPolicySpec], overBGP bool) bool {
	any := false
	var says []*statement
	for _, p := range policies {
		object, spec := p.object, p.value.Spec
		switch {
		case !spec.LoadBalancerIPs:
			r.leaveOut(object, "spec", NoCounterpart, "announces no addresses of load balancers (loadBalancerIPs), but externalIPs at most, which Plinth does not announce: it is left out")
			continue
		case len(r.pools) == 0:
			r.leaveOut(object, "spec", NotValid, "no CiliumLoadBalancerIPPool was read that it could announce: it is left out")
			continue
		case overBGP:
			r.leaveOut(object, "spec", Differs, "VIPs are announced over BGP, too: Plinth announces an address one way, and takes BGP. With advertise: {via: link} a pool is announced on the link")
			continue
		case r.places.nobody(r.nodes(spec.NodeSelector)):
			r.leaveOut(object, "spec.nodeSelector", NotValid, "no Node that was read has these labels: it is left out")
			continue
		}
		any = true
		object.mark(carried, "spec.loadBalancerIPs", "spec.nodeSelector", "spec.serviceSelector")
		r.drop(object, "spec.interfaces", onItsSubnet)
		r.dropUnless(object, "spec.externalIPs", "false", "Plinth announces no externalIPs of Services: give these a VIP of a pool")
		one := newAdvertise()
		one.Racks = r.places.of(object, "spec.nodeSelector", r.nodes(spec.NodeSelector))
		one.Selector = r.announced(object, "spec.serviceSelector", spec.ServiceSelector)
		says = append(says, &statement{object: object, path: "spec"})
		for i := range r.pools {
			pool := &r.pools[i].pool
			pool.Via = inventory.ViaLink
			pool.Advertise = append(pool.Advertise, one)
			r.comment("spec.pools["+pool.Name+"]", object)
		}
	}
	for i := range r.pools {
		if p := &r.pools[i]; p.pool.Via == inventory.ViaLink {
			r.unite(p.object, &p.pool, says)
			r.places.subnetsFor(p.object, "spec.blocks", &p.pool)
		}
	}
	r.tellIdle(says)
	return any
}
