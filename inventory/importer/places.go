package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

// places turn selectors of Nodes into racks.
type places struct {
	*draft
	label string // whose value is the name of a rack, where no Nodes were read
}

// placesOf returns the places of selectors: where no Nodes were read, the one label that all of them ask for makes the racks.
func placesOf(d *draft, all []inventory.Selector) places {
	return places{draft: d, label: cmp.Or(d.options.RackBy, rackLabel(all))}
}

// rackLabel is the one label that all selectors ask for, else that of the zone. A machine's own name and its role make no rack.
func rackLabel(all []inventory.Selector) string {
	var keys []string
	for _, s := range all {
		keys = append(keys, s.Keys()...)
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool {
		return k == corev1.LabelHostname || strings.HasPrefix(k, "node-role.kubernetes.io/")
	})
	if len(keys) == 1 {
		return keys[0]
	}
	return corev1.LabelTopologyZone
}

// of returns the racks that selectors choose, of which one has to match and which choose some machine; none: all machines. A note records a choice that is no whole rack.
func (p places) of(object *object, path string, all []inventory.Selector) []string {
	if len(all) == 0 || slices.ContainsFunc(all, inventory.Selector.Empty) {
		return nil
	}
	if len(p.nodes) > 0 {
		p.tellIdle(object, path, all)
		return p.ofNodes(chosenBy(all), func(code Code, format string, args ...any) {
			for _, field := range selectorFields(object, path) {
				p.overrideAndNote(object, field, code, fmt.Sprintf(format, args...))
			}
		})
	}
	var racks []string
	for _, s := range all {
		values, ok := valuesOf(s, p.label)
		if !ok {
			for _, field := range selectorFields(object, path) {
				p.overrideAndNote(object, field, Differs, fmt.Sprintf("%s is no choice of racks by the label %s: in the inventory all machines are chosen. Give the Nodes, too (plinth import nodes,...), or --rack-by", s, p.label))
			}
			return nil
		}
		for _, v := range values {
			name, _ := p.rackFor(v, v, "", func(message string) { p.note(object, path, Renamed, message) })
			racks = append(racks, name)
		}
	}
	p.tellLabel()
	slices.Sort(racks)
	return slices.Compact(racks)
}

// selectorFields are the fields that have the selectors at a path: what a Pod says of its Nodes stands in two.
func selectorFields(object *object, path string) (fields []string) {
	above := path[:strings.LastIndexByte(path, '.')+1]
	if path != above+"nodeSelector" && path != above+"affinity" {
		return []string{path}
	}
	for _, field := range []string{above + "nodeSelector", above + "affinity"} {
		if object.has(field) && !ofSystemAlone(object.at(field)) {
			fields = append(fields, field)
		}
	}
	return fields
}

// tellLabel notes once the label whose values are the racks, where it was not given: it stands nowhere in the inventory.
func (p places) tellLabel() {
	if p.options.RackBy != "" {
		return
	}
	one := Note{Severity: Told, Code: Guessed, Path: "spec.racks", Message: fmt.Sprintf("no Nodes were read, and racks are the values of their label %s: give the Nodes, too (plinth import nodes,...), for machines to be in them", p.label)}
	if !slices.Contains(p.notes, one) {
		p.notes = append(p.notes, one)
	}
}

// nobody reports whether selectors choose none of the Nodes that were read.
func (p places) nobody(all []inventory.Selector) bool {
	return len(p.nodes) > 0 && len(all) > 0 && !slices.ContainsFunc(p.nodes, chosenBy(all))
}

// valuesOf are the values of a label that a selector chooses; false: it is no such choice.
func valuesOf(selector inventory.Selector, label string) ([]string, bool) {
	switch {
	case len(selector.MatchLabels) == 1 && len(selector.MatchExpressions) == 0:
		v, ok := selector.MatchLabels[label]
		return []string{v}, ok && v != ""
	case len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 1:
		e := selector.MatchExpressions[0]
		return e.Values, e.Key == label && e.Operator == inventory.OpIn && !slices.Contains(e.Values, "")
	}
	return nil, false
}

// tellIdle notes what makes no difference to the Nodes that selectors choose. What a Pod says of its Nodes stands in two fields, and is noted as a whole.
func (p places) tellIdle(object *object, path string, all []inventory.Selector) {
	labels := make([]map[string]string, len(p.nodes))
	for i, n := range p.nodes {
		labels[i] = n.labels
	}
	at := func(i int) string {
		if strings.HasSuffix(path, "s") {
			return fmt.Sprintf("%s[%d]", path, i)
		}
		return path
	}
	for _, idle := range idleParts(at, "Node", all, labels, make([]bool, len(labels))) {
		if where := idle.path; object.has(where) {
			p.markAndNote(object, where, NotValid, idle.message)
			continue
		}
		for _, field := range selectorFields(object, path) {
			p.overrideAndNote(object, field, NotValid, idle.message)
		}
	}
}

// partAtMost bounds how many machines of a rack a note names.
const partAtMost = 5

// chosenBy is the choice of Nodes by selectors of which one has to match.
func chosenBy(all []inventory.Selector) func(node) bool {
	return func(n node) bool {
		return slices.ContainsFunc(all, func(s inventory.Selector) bool { return s.Matches(n.labels) })
	}
}

// ofNodes are the racks of the Nodes that are chosen; none: all are.
func (p places) ofNodes(is func(node) bool, tell func(Code, string, ...any)) []string {
	chosen, size, total := map[string][]string{}, map[string]int{}, 0
	for _, n := range p.nodes {
		size[n.rack]++
		if is(n) {
			chosen[n.rack] = append(chosen[n.rack], n.name)
			total++
		}
	}
	if total == len(p.nodes) {
		return nil
	}
	var racks, parts []string
	for name, machines := range chosen {
		racks = append(racks, name)
		if count := len(machines); count < size[name] {
			slices.Sort(machines)
			some := strings.Join(machines[:min(count, partAtMost)], ", ")
			if count > partAtMost {
				some += ", ..."
			}
			parts = append(parts, fmt.Sprintf("%s (%d of %d machines: %s)", name, count, size[name], some))
		}
	}
	slices.Sort(racks)
	slices.Sort(parts)
	if len(parts) > 0 {
		tell(Differs, "chooses a part of rack %s: in the inventory whole racks are chosen. Racks by another label (--rack-by) may do", strings.Join(parts, ", "))
	}
	return racks
}

// subnetsFor gives racks the subnets that a pool needs which is announced on them. What they are nobody wrote down: they are guessed as
// prefixes of 24 bits (64 of IPv6), or of more addresses where the pool has more.
func (p places) subnetsFor(object *object, path string, pool *inventory.Pool) {
	var guessed []string
	var hosts []inventory.Range
	for _, one := range pool.Ranges {
		subnet := around(one)
		racks := p.racksIn(subnet, pool)
		if len(racks) == 0 {
			p.note(object, path, Guessed, fmt.Sprintf("no machine has an address in %v, so that no subnet is taken for it: its VIPs would be announced over BGP", subnet))
			continue
		}
		for _, name := range racks {
			rack := p.rack(name)
			if !slices.ContainsFunc(rack.Subnets, subnet.Overlaps) {
				rack.Subnets = append(rack.Subnets, subnet)
			}
		}
		guessed = append(guessed, subnet.String())
		hosts = append(hosts, noHosts(subnet, one)...)
	}
	if len(guessed) == 0 {
		pool.Via = ""
		return
	}
	var excluded []string
	for _, r := range hosts {
		if !slices.ContainsFunc(pool.Exclude, r.Overlaps) {
			pool.Exclude = append(pool.Exclude, r)
			excluded = append(excluded, r.String())
		}
	}
	message := fmt.Sprintf("the subnet of the machines that answer for it is taken to be %s: look whether that is its prefix length", strings.Join(slices.Compact(guessed), ", "))
	if len(excluded) > 0 {
		message += fmt.Sprintf(". No host can have %s there, and no VIP gets it (exclude)", inWords(excluded))
	}
	p.note(object, path, Guessed, message)
}

// noHosts are the addresses of a range that no host of a subnet can have: the network and broadcast address of IPv4, and that of
// all routers (RFC 4291, section 2.6.1) of IPv6.
func noHosts(subnet netip.Prefix, ipRange inventory.Range) (all []inventory.Range) {
	whole := inventory.RangeOf(subnet)
	edges := []netip.Addr{whole.First}
	if ipRange.Is4() {
		edges = append(edges, whole.Last)
	}
	for _, a := range edges {
		if ipRange.Contains(a) {
			all = append(all, inventory.Range{First: a, Last: a})
		}
	}
	return all
}

// racksIn returns the racks with a machine in a subnet; where no machines are known, those of the pool's advertisements, or one that is made.
func (p places) racksIn(subnet netip.Prefix, pool *inventory.Pool) (names []string) {
	if !slices.ContainsFunc(p.inv.Racks, func(r inventory.Rack) bool { return len(r.Machines) > 0 }) {
		for _, a := range pool.Advertise {
			names = append(names, a.Racks...)
		}
		if len(names) == 0 {
			for _, r := range p.inv.Racks {
				names = append(names, r.Name)
			}
		}
		if len(names) == 0 {
			names = []string{defaultRack}
		}
		return names
	}
	for _, r := range p.inv.Racks {
		if slices.ContainsFunc(r.Machines, func(m inventory.Machine) bool { return slices.ContainsFunc(m.Addresses, subnet.Contains) }) {
			names = append(names, r.Name)
		}
	}
	return names
}

// around is the subnet that a range is guessed to lie in.
func around(ipRange inventory.Range) netip.Prefix {
	bits := 24
	if !ipRange.Is4() {
		bits = 64
	}
	for ; bits > 0; bits-- {
		if p := netip.PrefixFrom(ipRange.First, bits).Masked(); p.Contains(ipRange.Last) {
			return p
		}
	}
	return netip.PrefixFrom(ipRange.First, 0).Masked()
}

// defaultRack is the name of the rack of machines whose place is not known.
const defaultRack = "default"
