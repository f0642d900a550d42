package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// kubeSystem is the namespace of what belongs to the cluster itself.
const kubeSystem = "kube-system"

// kubeVIPKinds are the kinds that configure kube-vip v1.2 and its cloud provider v0.0.12.
var kubeVIPKinds = slices.Concat(inNamespace(kubeSystem, kindsOf("", "v1", "ConfigMap", "Pod")), kindsOf("apps", "v1", "DaemonSet", "Deployment"), kindsOf("", "v1", "Service"))

// providerImage is the image of kube-vip's cloud provider.
const providerImage = "kube-vip-cloud-provider"

// kubeVIPReader carries over what kube-vip is told.
type kubeVIPReader struct {
	*draft
	places    places
	configMap string        // namespace/name of the pools
	named     []setVariable // that name it
	daemons   []kubeVIPDaemon
	keep      []controlPlaneVIP
	pools     []kubeVIPPool
	profiles  map[inventory.BFDProfile]string
}

// kubeVIPDaemon is a kube-vip that serves Services.
type kubeVIPDaemon struct {
	settings
	via   inventory.Via // empty: in no way that Plinth has
	racks []string      // that its machines stand in; none: all
}

// setVariable is a variable with the container that it is of.
type setVariable struct {
	variable
	settings settings
}

// controlPlaneVIP is the address of the API server, which no Service may get.
type controlPlaneVIP struct {
	setVariable
	addr netip.Addr
}

func readKubeVIP(draft *draft) {
	reader := &kubeVIPReader{draft: draft, configMap: kubeSystem + "/kubevip", profiles: map[inventory.BFDProfile]string{}}
	draft.pass("", "ServiceAccount", "Namespace")
	draft.pass("rbac.authorization.k8s.io", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
	var daemons, all []settings
	for _, s := range reader.programs() {
		switch s.image {
		case "kube-vip", "kube-vip-iptables":
			daemons = append(daemons, s)
		case providerImage:
			reader.provider(s)
		}
	}
	var selecting []inventory.Selector
	for _, set := range daemons {
		if i := slices.IndexFunc(all, set.sameAs); i >= 0 {
			all[i].others = append(all[i].others, set)
			continue
		}
		all = append(all, set)
		selecting = append(selecting, set.nodeSelectors()...)
	}
	reader.places = placesOf(draft, selecting)
	for _, s := range all {
		reader.daemon(s)
	}
	reader.readPools()
	reader.announce()
	draft.excludes = append(draft.excludes, reader.keepControlPlane)
	reader.readServices()
}

// settings are the settings of a container, by its environment and by flags.
type settings struct {
	object    *object
	template  string // path of the pod's spec
	container string // path of the container
	image     string // the last part of its name
	variables []variable
	others    []settings // that are told the same, as a static Pod on each machine is
}

// variable is one of a container's environment.
type variable struct {
	path, name, value string
	from              *yaml.Node // where its value comes from, if it does not stand there
	flag              string     // that says it in the place of the environment; empty: none does
}

// String returns the name that the owner used: the flag's, or else the variable's.
func (v variable) String() string { return cmp.Or(v.flag, v.name) }

// isSet reports whether kube-vip takes notice of it: not of an empty variable.
func (v variable) isSet() bool { return v.value != "" || v.from != nil || v.flag != "" }

// programs are all containers of what was read. What has none of kube-vip's is without meaning; see narrow.
func (r *kubeVIPReader) programs() (all []settings) {
	for _, from := range []struct{ group, kind, template string }{
		{"apps", "DaemonSet", "spec.template.spec"}, {"apps", "Deployment", "spec.template.spec"}, {"", "Pod", "spec"},
	} {
		for _, o := range r.of(from.group, from.kind) {
			o.mark(meaningless, "", "metadata.name")
			if !ofController(o) {
				all = append(all, containersOf(o, from.template)...)
			}
		}
	}
	return all
}

// ofController reports whether a Pod was made of a DaemonSet or Deployment, which is read in its place.
func ofController(o *object) bool {
	owners := o.at("metadata.ownerReferences")
	return owners != nil && slices.ContainsFunc(owners.Content, func(n *yaml.Node) bool {
		kind := child(n, "kind")
		return kind != nil && kind.Value != "Node" // that of a static Pod
	})
}

// narrow marks an object of which not all is without meaning: one of its containers is kube-vip.
func (s settings) narrow() {
	object := s.object
	for i := range contentOf(object.at(s.template + ".containers")) {
		if path := fmt.Sprintf("%s.containers[%d]", s.template, i); path != s.container {
			object.mark(meaningless, path)
		}
	}
	object.mark(meaningless, s.template+".nodeSelector", s.template+".affinity", s.template+".nodeName")
	for _, v := range s.variables {
		object.mark(meaningless, v.path)
	}
	object.markIdle()
}

func containersOf(object *object, template string) (all []settings) {
	list := object.at(template + ".containers")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for i, node := range list.Content {
		set := settings{object: object, template: template, container: fmt.Sprintf("%s.containers[%d]", template, i), image: imageName(valueOf(node, "image"))}
		for j, v := range contentOf(child(node, "env")) {
			set.variables = append(set.variables, variable{path: fmt.Sprintf("%s.env[%d]", set.container, j), name: valueOf(v, "name"), value: valueOf(v, "value"), from: child(v, "valueFrom")})
		}
		if strings.HasPrefix(set.image, "kube-vip") && set.image != providerImage {
			set.variables = append(set.variables, flagsOf(object, set.container, node)...)
		}
		all = append(all, set)
	}
	return all
}

// imageName is the last part of an image's name, without tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndexByte(image, '/')+1:]
	image, _, _ = strings.Cut(image, ":")
	return image
}

// ofOneMachine are variables that static Pods may have another value of on each machine. None of them is carried over.
var ofOneMachine = []string{
	"bgp_routerid", "bgp_routerinterface", "bgp_sourceif", "bgp_sourceip", "instance_name", "mpbgp_ipv4", "mpbgp_ipv6", "vip_interface", "vip_nodename", "vip_servicesinterface",
}

// sameAs reports whether two containers are told the same but for what is of one machine, as a static Pod on several machines is.
func (s settings) sameAs(o settings) bool {
	same := func(a, b variable) bool {
		return a.name == b.name && (a.value == b.value || slices.Contains(ofOneMachine, strings.ToLower(a.name)))
	}
	return slices.EqualFunc(s.variables, o.variables, same) &&
		slices.EqualFunc(s.nodeSelectors(), o.nodeSelectors(), func(a, b inventory.Selector) bool { return a.String() == b.String() })
}

// get is a variable: of those of one name the first that is set, so that the environment outweighs a flag; its zero value: there is none.
func (s settings) get(name string) (found variable) {
	for _, v := range s.variables {
		if strings.EqualFold(v.name, name) && (found.path == "" || !found.isSet()) {
			found = v
		}
	}
	return found
}

// yes reports whether a variable says true, in one of the ways of Go's strconv.
func (s settings) yes(name string) bool {
	yes, _ := strconv.ParseBool(s.get(name).value)
	return yes
}

// ofSystem reports whether a label describes a machine's system, which an inventory does not have.
func ofSystem(label string) bool { return label == "kubernetes.io/os" || label == "kubernetes.io/arch" }

// ofSystemAlone reports whether all labels of a mapping tell of a machine's system.
func ofSystemAlone(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !ofSystem(n.Content[i].Value) {
			return false
		}
	}
	return true
}

// nodeSelectors returns the selectors of a Pod for its Node, but for labels of the Node's system. One of them has to match.
func (s settings) nodeSelectors() (all []inventory.Selector) {
	var base inventory.Selector
	content := contentOf(s.object.at(s.template + ".nodeSelector"))
	for i := 0; i+1 < len(content); i += 2 {
		if key := content[i].Value; !ofSystem(key) {
			base.MatchExpressions = append(base.MatchExpressions, inventory.Requirement{Key: key, Operator: inventory.OpIn, Values: []string{content[i+1].Value}})
		}
	}
	terms := s.object.at(s.termsPath())
	if terms == nil || terms.Kind != yaml.SequenceNode || s.unreadTerm() != "" {
		if base.Empty() {
			return nil
		}
		return []inventory.Selector{base}
	}
	for _, term := range terms.Content {
		all = append(all, inventory.Selector{MatchExpressions: append(slices.Clone(base.MatchExpressions), requirementsIn(child(term, "matchExpressions"))...)})
	}
	return all
}

// termsPath returns the path of the terms by which a Pod chooses its Nodes.
func (s settings) termsPath() string {
	return s.template + ".affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
}

// unreadTerm returns the first requirement of terms that no selector of an inventory can express; empty: there is none.
func (s settings) unreadTerm() string {
	for _, term := range contentOf(s.object.at(s.termsPath())) {
		if child(term, "matchFields") != nil {
			return "matchFields"
		}
		for _, e := range requirementsIn(child(term, "matchExpressions")) {
			switch e.Operator {
			case inventory.OpIn, inventory.OpNotIn, inventory.OpExists, inventory.OpDoesNotExist:
			default:
				return "the operator " + string(e.Operator)
			}
		}
	}
	return ""
}

func requirementsIn(list *yaml.Node) (all []inventory.Requirement) {
	for _, n := range contentOf(list) {
		one := inventory.Requirement{Key: valueOf(n, "key"), Operator: inventory.Operator(valueOf(n, "operator"))}
		for _, v := range contentOf(child(n, "values")) {
			one.Values = append(one.Values, v.Value)
		}
		all = append(all, one)
	}
	return all
}

// announce adds to each pool the way by which the daemons announce it.
func (r *kubeVIPReader) announce() {
	i := slices.IndexFunc(r.daemons, func(d kubeVIPDaemon) bool { return d.via == inventory.ViaLink })
	bgp := slices.ContainsFunc(r.daemons, func(d kubeVIPDaemon) bool { return d.via == inventory.ViaBGP })
	for _, pool := range r.pools {
		switch {
		case i >= 0 && !bgp:
			pool.pool.Via = inventory.ViaLink
			if racks := r.racksOf(inventory.ViaLink); len(racks) > 0 {
				one := newAdvertise()
				one.Racks = racks
				pool.pool.Advertise = []inventory.Advertise{one}
			}
			r.places.subnetsFor(pool.object, pool.path, &pool.pool)
		case len(r.daemons) == 0:
			r.note(pool.object, pool.path, Guessed, "no kube-vip that announces it was read: read its DaemonSet or Pod, too. Without it VIPs would be announced over BGP")
		}
		r.inv.Pools = append(r.inv.Pools, pool.pool)
	}
	if i >= 0 && bgp {
		s := r.daemons[i].settings
		r.markAndNote(s.object, s.get("vip_arp").path, Differs, "another kube-vip announces the same Services over BGP: Plinth announces an address one way, and takes BGP")
	}
}

// racksOf are the racks of the daemons that announce in some way; none: all.
func (r *kubeVIPReader) racksOf(via inventory.Via) (racks []string) {
	for _, d := range r.daemons {
		if d.via == via && len(d.racks) == 0 {
			return nil
		}
		if d.via == via {
			racks = append(racks, d.racks...)
		}
	}
	slices.Sort(racks)
	return slices.Compact(racks)
}

// keepControlPlane takes the control plane's addresses out of the pools.
func (r *kubeVIPReader) keepControlPlane() {
	for _, k := range r.keep {
		if pools := r.exclude(k.addr); len(pools) > 0 {
			r.markAndNote(k.settings.object, k.path, Guessed, fmt.Sprintf("%s: %v is the address of the control plane, and excluded from pool %s", k.variable, k.addr, strings.Join(pools, ", ")))
		}
	}
}
