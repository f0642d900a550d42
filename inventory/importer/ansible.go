package importer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// ansibleReader carries hosts over, and the pools that playbooks give to MetalLB and kube-vip.
type ansibleReader struct {
	*draft
	*ansibleTree
	nodeGroups []string                // nil: all hosts are Nodes
	rackVar    string                  // whose value is the rack; empty: rackGroup says it
	rackGroup  string                  // what the names of groups begin with that are racks
	vars       []map[string]ansibleVar // of the hosts that are Nodes
	ofCluster  map[string]bool         // variables that are asked for once, whatever host has them
	others     map[string]bool         // machines that other sources made, by name
	unmade     map[string]bool         // hosts that are Nodes and that another source or host made the machine of
}

func readAnsible(into *draft) {
	reader := &ansibleReader{draft: into, ansibleTree: treeOf(into), ofCluster: map[string]bool{}, others: map[string]bool{}, unmade: map[string]bool{}}
	for _, rack := range into.inv.Racks {
		for _, m := range rack.Machines {
			reader.others[m.Name] = true
		}
	}
	reader.nodeGroups = reader.chosenGroups()
	reader.chooseRacks()
	if reader.nodeGroups == nil && len(reader.hosts) > 0 {
		into.guess("", fmt.Sprintf("no host of Ansible's is in a group of Kubernetes nodes (%s): each of the %d is taken for a Node",
			strings.Join(slices.Concat(nodeGroups...), ", "), len(reader.hosts)))
	}
	for _, h := range reader.hosts {
		reader.host(h)
	}
	reader.pools()
	reader.rest()
}

// chooseRacks finds what the racks of hosts are told by.
func (r *ansibleReader) chooseRacks() {
	has := func(name string) bool {
		return slices.ContainsFunc(r.hosts, func(h *ansibleHost) bool { _, ok := r.varsOf(h, edge{})[name]; return ok })
	}
	switch by := r.options.RackBy; {
	case by != "" && has(by):
		r.rackVar = by
	case by != "":
		r.rackGroup = by
	case has("rack"):
		r.rackVar = "rack"
	default:
		r.rackVar = "zone"
	}
}

// groupRack is the group of a host that is its rack: the first by name.
func (r *ansibleReader) groupRack(groups map[string]int) string {
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if r.rackGroup != "" && strings.HasPrefix(g, r.rackGroup) {
			return g
		}
	}
	return ""
}

// host makes a machine of a host that is a Node. Its variables count for the cluster also where the machine is there already.
func (r *ansibleReader) host(one *ansibleHost) {
	groups, vars, obj := r.groupsOf(one, edge{}), r.varsOf(one, edge{}), one.objects[0]
	if !inAny(groups, r.nodeGroups) {
		for _, o := range one.objects {
			r.leaveOut(o, "", NotRead, "is in no group of Kubernetes nodes ("+strings.Join(r.nodeGroups, ", ")+"): it is left out")
		}
		return
	}
	machine := inventory.Machine{Name: r.machineName(obj), OwnState: inventory.StateActive, State: inventory.StateActive}
	r.vars = append(r.vars, vars)
	if why := r.isMade(machine.Name, obj, vars); why != "" {
		r.unmade[one.name] = true
		for _, o := range one.objects {
			r.leaveOut(o, "", Differs, why+": what that one says counts, and no machine is made of this")
		}
		return
	}
	machine.ID = machine.Name
	r.addresses(obj, vars, &machine)
	r.labels(vars, &machine)
	r.taints(vars, &machine)
	machine.Rack = r.rackOf(vars, groups)
	if len(machine.Addresses) == 0 {
		machine.OwnState, machine.State = inventory.StatePlanned, inventory.StatePlanned
		r.note(obj, "", Guessed, "no variable of the host has an address (ip, access_ip, ansible_host): the machine is planned. Give it its addresses, and take the state away")
	}
	r.addMachine(machine, one.objects...)
}

// isMade returns a text for a note where a host's machine is there already; empty: it is not. Another source may have it by another name, with the host's address.
func (r *ansibleReader) isMade(name string, o *object, vars map[string]ansibleVar) string {
	if have := cmp.Or(r.machine(name), r.machineAt(o.name)); have != nil {
		return fmt.Sprintf("machine %s is there already, by another source or host", have.Name)
	}
	for _, name := range ansibleAddresses {
		text, _ := r.value(vars[name])
		if _, err := netip.ParseAddr(text); err != nil {
			continue
		}
		if have := r.machineAt(text); have != nil && r.others[have.Name] {
			return fmt.Sprintf("machine %s of another source has its address %s", have.Name, text)
		}
		break
	}
	return ""
}

// machineName returns the name of the Node, which the host's name is taken for.
func (r *ansibleReader) machineName(o *object) string {
	name, same := cleanName(o.name)
	if _, err := netip.ParseAddr(o.name); err == nil {
		r.note(o, "metadata.name", Guessed, "the host has an address for a name, and the machine is named by it: write the name of its Node")
	} else if !same {
		r.note(o, "metadata.name", Renamed, fmt.Sprintf("the machine is named %q: look whether its Node is", name))
	}
	return name
}

// value is the text of a variable; false: there is none, or it cannot be read, of which a note tells.
func (r *ansibleReader) value(v ansibleVar) (string, bool) {
	if v.node == nil {
		return "", false
	}
	return r.textAt(v, v.path(), v.node)
}

// textAt is the text of a node in a variable.
func (r *ansibleReader) textAt(variable ansibleVar, path string, node *yaml.Node) (string, bool) {
	switch {
	case node.Kind != yaml.ScalarNode || node.Tag == "!!null":
		return "", false
	case node.Tag == "!vault" || strings.HasPrefix(node.Value, "$ANSIBLE_VAULT"):
		r.tellOnce(variable.object, path, ByHand, "is encrypted by ansible-vault, and not read: write it into the inventory, where it is no secret")
	case isTemplate(node.Value):
		r.tellOnce(variable.object, path, ByHand, fmt.Sprintf("is a template, which is not evaluated: write its value into the inventory (ansible all -m debug -a var=%s shows it)", variable.name))
	default:
		return node.Value, true
	}
	return "", false
}

// tellOnce notes a field that several hosts have in common.
func (r *ansibleReader) tellOnce(o *object, path string, code Code, message string) {
	if o.fates[path] != noted {
		r.markAndNote(o, path, code, message)
	}
}

// ansibleAddresses are the variables that may have a host's address, in the order in which they count.
var ansibleAddresses = []string{"ip", "k3s_node_ip", "access_ip", "ansible_host", "ansible_ssh_host"}

// addresses adds the addresses of the first variable that has one, then that of IPv6, and in the end the host's name.
func (r *ansibleReader) addresses(obj *object, vars map[string]ansibleVar, machine *inventory.Machine) {
	add := func(name string) bool {
		variable := vars[name]
		text, _ := r.value(variable)
		addr, err := netip.ParseAddr(text)
		if err != nil || slices.Contains(machine.Addresses, addr) {
			return false
		}
		if why := r.unusable(addr); why != "" {
			r.tellOnce(variable.object, variable.path(), NotValid, fmt.Sprintf("%v %s: it is not taken", addr, why))
			return false
		}
		machine.Addresses = append(machine.Addresses, addr)
		variable.object.mark(carried, variable.path())
		return true
	}
	if !slices.ContainsFunc(ansibleAddresses, add) {
		if addr, err := netip.ParseAddr(obj.name); err == nil && r.unusable(addr) == "" {
			machine.Addresses = append(machine.Addresses, addr)
		}
	}
	if !add("ip6") {
		add("access_ip6")
	}
	r.otherAddress(vars["access_ip"], machine)
	r.otherAddress(vars["access_ip6"], machine)
}

// otherAddress notes an address by which others reach a host that has an address of its own.
func (r *ansibleReader) otherAddress(v ansibleVar, m *inventory.Machine) {
	text, ok := r.value(v)
	if addr, err := netip.ParseAddr(text); ok && err == nil && !slices.Contains(m.Addresses, addr) {
		r.tellOnce(v.object, v.path(), NoCounterpart, fmt.Sprintf("%v; machines have the address of ip, which the kubelet has. If clients reach the machine by this one, write it as externalAddresses", addr))
	}
}

// isOf reports whether a variable is set, and its node is of a kind. A note records a text in its place.
func (r *ansibleReader) isOf(v ansibleVar, kind yaml.Kind, otherwise string) bool {
	if v.node == nil || v.node.Kind == kind {
		return v.node != nil
	}
	if _, ok := r.value(v); ok {
		r.tellOnce(v.object, v.path(), NotValid, otherwise)
	}
	return false
}

// labels are kubespray's node_labels, without those that Kubernetes or the inventory keeps.
func (r *ansibleReader) labels(vars map[string]ansibleVar, machine *inventory.Machine) {
	variable := vars["node_labels"]
	if !r.isOf(variable, yaml.MappingNode, "is no mapping of labels: it is left out") {
		return
	}
	for label, value := range pairs(variable.node) {
		key, path := label.Value, join(variable.path(), label.Value)
		if ofKubernetes(key) {
			r.tellOnce(variable.object, path, NoCounterpart, "a label of Kubernetes' or Plinth's own: it is not written, and stays on the Node. Zone and rack are said by the rack")
			continue
		}
		text, ok := r.textAt(variable, path, value)
		switch {
		case !ok:
		case !labelKey.MatchString(key) || !labelValue.MatchString(text):
			r.tellOnce(variable.object, path, NotValid, fmt.Sprintf("%s=%s is no label: it is left out", key, text))
		default:
			variable.object.mark(carried, path)
			put(&machine.Labels, key, text)
		}
	}
}

// taints are kubespray's node_taints: texts of the form key=value:effect.
func (r *ansibleReader) taints(vars map[string]ansibleVar, machine *inventory.Machine) {
	variable := vars["node_taints"]
	if !r.isOf(variable, yaml.SequenceNode, "is no list of taints: it is left out") {
		return
	}
	for i, n := range variable.node.Content {
		path := fmt.Sprintf("%s[%d]", variable.path(), i)
		text, ok := r.textAt(variable, path, n)
		if !ok {
			continue
		}
		taint, ok := taintIn(text)
		switch {
		case !ok:
			r.tellOnce(variable.object, path, NotValid, fmt.Sprintf("%q is no taint: accepted is key=value:NoSchedule, PreferNoSchedule or NoExecute. It is left out", text))
		case ofKubernetes(taint.Key):
			r.tellOnce(variable.object, path, NoCounterpart, "a taint of Kubernetes' or Plinth's own: it is not written, and stays on the Node")
		case slices.ContainsFunc(machine.Taints, func(have inventory.Taint) bool { return have.Key == taint.Key && have.Effect == taint.Effect }):
			r.tellOnce(variable.object, path, NotValid, "is there twice with one effect: it is left out")
		default:
			variable.object.mark(carried, path)
			machine.Taints = append(machine.Taints, taint)
		}
	}
}

// taintIn reads key=value:effect.
func taintIn(text string) (inventory.Taint, bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return inventory.Taint{}, false
	}
	key, value, _ := strings.Cut(text[:i], "=")
	effect := text[i+1:]
	return inventory.Taint{Key: key, Value: value, Effect: effect}, labelKey.MatchString(key) && labelValue.MatchString(value) && slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, effect)
}

// rackOf is the rack of a host, by the variable or the group that says it. Its zone is that of the first host in it.
func (r *ansibleReader) rackOf(vars map[string]ansibleVar, groups map[string]int) string {
	value, by := r.groupRack(groups), ansibleVar{}
	if v := vars[r.rackVar]; r.rackVar != "" && v.node != nil {
		if text, ok := r.value(v); ok {
			value, by = text, v
			v.object.mark(carried, v.path())
		}
	}
	variable := vars["zone"]
	zone, ok := r.value(variable)
	if ok && !labelValue.MatchString(zone) {
		r.tellOnce(variable.object, variable.path(), NotValid, fmt.Sprintf("%q is no value of a label, and no zone: it is left out", zone))
		zone, ok = "", false
	}
	name, sameZone := r.rackFor(value, value, zone, func(message string) {
		if by.object != nil {
			r.tellOnce(by.object, by.path(), Renamed, message)
		}
	})
	if ok && sameZone {
		variable.object.mark(carried, variable.path())
	} else if ok {
		r.tellOnce(variable.object, variable.path(), Differs, fmt.Sprintf("%q; other machines of rack %s have %q, and a rack has one zone: the first one's is taken", zone, name, r.rack(name).Zone))
	}
	return name
}
