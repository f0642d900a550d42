package importer

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// playbookBalancer names the variables by which playbooks for k3s configure one load balancer.
type playbookBalancer struct {
	source, pool, ranges string
	asn, peer, peerASN   string
	bgp                  func(*ansiblePools) bool   // announced over BGP; else on the link
	inactive             func(*ansiblePools) string // the variable by which another balancer takes its place
}

var playbookBalancers = []playbookBalancer{
	{"metallb", "metallb", "metal_lb_ip_range", "metal_lb_bgp_my_asn", "metal_lb_bgp_peer_address", "metal_lb_bgp_peer_asn", func(p *ansiblePools) bool { return p.mode("metal_lb_mode") == "bgp" }, func(p *ansiblePools) string {
		if p.shared("kube_vip_lb_ip_range").node != nil {
			return "kube_vip_lb_ip_range"
		}
		if yes, _ := p.isTrue("cilium_bgp"); yes {
			return "cilium_bgp"
		}
		return ""
	}},
	{"kube-vip", "kube-vip", "kube_vip_lb_ip_range", "kube_vip_bgp_as", "kube_vip_bgp_peeraddress", "kube_vip_bgp_peeras", func(p *ansiblePools) bool { yes, _ := p.isTrue("kube_vip_bgp"); return yes }, nil},
	{"cilium", "cilium", "cilium_bgp_lb_cidr", "cilium_bgp_my_asn", "cilium_bgp_peer_address", "cilium_bgp_peer_asn", func(*ansiblePools) bool { return true }, func(p *ansiblePools) string {
		if yes, _ := p.isTrue("cilium_bgp"); !yes {
			return "cilium_bgp, which is not true"
		}
		return ""
	}},
}

// mode is layer2 or bgp.
func (p *ansiblePools) mode(name string) string {
	variable := p.shared(name)
	text, ok := p.value(variable)
	switch {
	case !ok:
	case text == "bgp" || text == "layer2":
		variable.object.mark(carried, variable.path())
	default:
		p.tellOnce(variable.object, variable.path(), NotValid, fmt.Sprintf("%q is neither layer2 nor bgp: layer2 is taken", text))
	}
	return text
}

// playbook makes a pool of the addresses that a playbook gives to a load balancer, and a router of its peer.
func (p *ansiblePools) playbook(balancer playbookBalancer) {
	variable := p.shared(balancer.ranges)
	if variable.node == nil {
		return
	}
	if slices.Contains(p.options.Sources, balancer.source) {
		p.tellOnce(variable.object, variable.path(), Differs, "the objects of "+balancer.source+" are read, too, and count: nothing of this is added")
		return
	}
	if balancer.inactive != nil {
		if because := balancer.inactive(p); because != "" {
			p.tellOnce(variable.object, variable.path(), NoCounterpart, "is not in use, by the variable "+because+": it is not carried over")
			return
		}
	}
	name, _ := p.newName(poolName, balancer.pool)
	pool := newPool(name)
	pool.Ranges = p.ranges(variable, variable.path(), variable.node, name)
	if len(pool.Ranges) == 0 {
		return
	}
	if !balancer.bgp(p) {
		pool.Via = inventory.ViaLink
	} else if peer := p.shared(balancer.peer); peer.node != nil {
		p.peerOf(balancer, peer)
	}
	if pool.Via == "" {
		pool.Advertise = []inventory.Advertise{newAdvertise()}
	}
	p.add(variable, variable.path(), &pool)
}

// peerOf makes a router of a playbook's peer.
func (p *ansiblePools) peerOf(balancer playbookBalancer, peer ansibleVar) {
	get := func(name string) string {
		text, _ := p.value(p.shared(name))
		return text
	}
	router, ok := p.router(peer, peer.path(), balancer.pool+"-peer", get(balancer.peer), get(balancer.peerASN), get(balancer.asn))
	if !ok {
		return
	}
	for _, name := range []string{balancer.peer, balancer.peerASN, balancer.asn} {
		v := p.shared(name)
		v.object.mark(carried, v.path())
	}
	ours, last := p.shared(balancer.asn), &p.peerings[len(p.peerings)-1]
	last.object, last.path = ours.object, ours.path() // a variable of its own says it
	p.inv.Routers = append(p.inv.Routers, router)
}

// isSecret matches the names of variables whose values are not printed.
var isSecret = regexp.MustCompile(`(?i)(password|passwd|passphrase|_pass$|token$|secret|private_key$|_key$|credential)`)

// noSecret are variables that say where secrets are, or whether there are any.
var noSecret = regexp.MustCompile(`(?i)(_file|_dir|_path|_name)=|=(true|false|yes|no)$`)

// hasContent are values that say anything. Where a password stands without its variable, as in w1 abc==def, its first part is the name of one
// whose value has nothing but signs, or begins with =.
var hasContent = regexp.MustCompile(`(?s)^([^=].*)?[\p{L}\p{N}]`)

// ofAnsible are names of variables that say how Ansible reaches a host, how a playbook installs Kubernetes, or nothing where another one
// is set: none of them says anything of an inventory.
var ofAnsible = regexp.MustCompile(`^(ansible_.*|etcd_member_name|kube_pods_subnet.*|kube_service_addresses.*|cluster_cidr|kube_version|k3s_version|metal_lb_.*|metallb_.*|kube_vip_.*|cilium_bgp.*|loadbalancer_apiserver.*|apiserver_endpoint|ip6?|access_ip6?|k3s_node_ip|node_labels|node_taints|rack|zone)$`)

// byHand maps variables that call for steps by hand to a note on these.
var byHand = map[string]string{
	"metallb_ip_range":                          "kubespray's older form: read MetalLB's own objects (plinth import ansible,metallb), which have the same",
	"metallb_additional_address_pools":          "kubespray's older form: read MetalLB's own objects (plinth import ansible,metallb), which have the same",
	"metallb_peers":                             "kubespray's older form: read MetalLB's own objects (plinth import ansible,metallb), which have the same",
	"metal_lb_interfaces":                       "a machine answers on the interface that has the rack's subnet",
	"kube_vip_services_enabled":                 "kube-vip's pools are in its ConfigMap in the cluster, not in Ansible's files: read that, too",
	"kube_vip_bgppeers":                         "kube-vip's peers: write them as routers, if kube-vip announces Services to them",
	"calico_advertise_service_loadbalancer_ips": "Calico announces these: take them out there before Plinth does",
	"ansible_group_priority":                    "groups of one depth count in the order of their names here: look whether the variables are the right ones",
}

// rest notes the fate of the variables that nothing was made of.
func (r *ansibleReader) rest() {
	effects, used := r.effects(), r.usedObjects()
	for o := range r.undecided() {
		effects.mark(o)
	}
	unknown := map[string][]ansibleVar{} // by file
	for obj := range r.undecided() {
		if isGroup(obj) && !used[obj] && obj.has("vars") && !effects.hasNode(obj.name) {
			r.leaveOut(obj, "", NotRead, "no Kubernetes node is in this group: its variables are not carried over")
			continue
		}
		if unnamed := r.restOfVars(obj); len(unnamed) > 0 {
			unknown[obj.source] = append(unknown[obj.source], unnamed...)
		}
		r.groupName(obj)
	}
	for file, vars := range unknown {
		r.summarize(file, vars)
	}
}

// undecided are the objects of Ansible's that have no fate as a whole.
func (r *ansibleReader) undecided() iter.Seq[*object] {
	return func(yield func(*object) bool) {
		for _, o := range r.objects {
			if o.group() == ansible && o.fates[""] == "" && !yield(o) {
				return
			}
		}
	}
}

// usedObjects returns the objects that have a variable which counts for a host that is a Node.
func (r *ansibleReader) usedObjects() map[*object]bool {
	used := map[*object]bool{}
	for _, vars := range r.vars {
		for _, v := range vars {
			used[v.object] = true
		}
	}
	return used
}

// isGroup reports whether an object has a group, or variables of one.
func isGroup(o *object) bool { return o.kind == ansibleGroupKind || o.kind == ansibleGroupVars }

// hasNode reports whether a Node is in a group.
func (e *ansibleEffects) hasNode(group string) bool {
	return group == "all" || slices.ContainsFunc(e.below[group], func(i int) bool { return e.own[i] != "" })
}

// restOfVars are the variables of an object that nothing is known of. All others of it are marked.
func (r *ansibleReader) restOfVars(obj *object) (unknown []ansibleVar) {
	for key, node := range pairs(obj.at("vars")) {
		name, variable := key.Value, ansibleVar{obj, key.Value, node}
		message, worth := byHand[name]
		switch {
		case variable.decided():
		case poolVars[name]:
			r.tellOnce(obj, variable.path(), NotValid, r.whyUnused(variable)+": nothing of it is carried over")
		case node.Kind == yaml.ScalarNode && node.Tag != "!vault" && !hasContent.MatchString(node.Value): // the name may be of a password: {password: a,b}
			obj.mark(meaningless, variable.path())
		case node.Tag == "!vault" || isSecret.MatchString(name) && !noSecret.MatchString(name+"="+node.Value):
			r.markAndNote(obj, variable.path(), NoCounterpart, "a secret: it is neither read nor printed, for Plinth logs in nowhere")
		case worth && node.Value != "false":
			r.markAndNote(obj, variable.path(), NoCounterpart, message)
		case ofAnsible.MatchString(name), name == r.rackVar, node.Kind != yaml.ScalarNode && len(node.Content) == 0:
			obj.mark(meaningless, variable.path())
		default:
			obj.mark(meaningless, variable.path())
			unknown = append(unknown, variable)
		}
	}
	return unknown
}

// poolVars are the variables that have pools.
var poolVars = map[string]bool{"metallb_config": true, "metal_lb_ip_range": true, "kube_vip_lb_ip_range": true, "cilium_bgp_lb_cidr": true}

// whyUnused returns the reason why no pool was made of a variable.
func (r *ansibleReader) whyUnused(v ansibleVar) string {
	for _, vars := range r.vars {
		if counts := vars[v.name]; counts.object == v.object {
			return "is in no form that is read: a text or a list of them, and of metallb_config a mapping"
		}
	}
	return "is not in use, for each Kubernetes node that it is of has another one that counts"
}

// decided reports whether a variable, or a part of it, has a fate.
func (v ansibleVar) decided() bool {
	for path := range v.object.fates {
		if within(path, v.path()) {
			return true
		}
	}
	return false
}

// namedAtMost bounds how many names one note has.
const namedAtMost = 12

// summarize names the variables of a file that nothing is known of, in one note.
func (r *ansibleReader) summarize(file string, all []ansibleVar) {
	var names []string
	for _, v := range all {
		if !slices.Contains(names, v.name) {
			names = append(names, v.name)
		}
	}
	more := ""
	if n := len(names) - namedAtMost; n > 0 {
		names, more = names[:namedAtMost], fmt.Sprintf(" and %d more", n)
	}
	at := inventory.Position{Source: file, Line: all[0].node.Line, Column: all[0].node.Column}
	r.notes = append(r.notes, Note{Position: at, Severity: Told, Code: UnknownField, Message: fmt.Sprintf("variables that are not known here, and not carried over: %s%s", strings.Join(names, ", "), more)})
}

// groupName marks a group's name by whether it matters: it does where something of the group is carried over, or a note names it.
func (r *ansibleReader) groupName(obj *object) {
	if !isGroup(obj) {
		return
	}
	obj.mark(meaningless, "metadata.name")
	if slices.ContainsFunc(r.notes, func(n Note) bool { return n.of == obj }) {
		obj.mark(noted, "metadata.name")
	}
	if slices.Contains(slices.Collect(maps.Values(obj.fates)), carried) {
		obj.mark(carried, "metadata.name")
	}
}
