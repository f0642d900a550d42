package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// nameChecks are the checks of names, and of what refers to them.
type nameChecks struct{ *validation }

// names refuses names that are used twice among things of one kind.
func (v nameChecks) names() {
	spec := v.raw
	unique(v.validation, spec.BFDProfiles.v, func(r *rawBFDProfile) scalar[string] { return r.Name }, "BFD profile")
	unique(v.validation, v.raw.allRouters(), func(r **rawRouter) scalar[string] { return (*r).Name }, "router")
	unique(v.validation, spec.Pools.v, func(r *rawPool) scalar[string] { return r.Name }, "pool")
	unique(v.validation, spec.Storage.v, func(r *rawStorage) scalar[string] { return r.Name }, "storage")
	unique(v.validation, spec.Racks.v, func(r *rawRack) scalar[string] { return r.Name }, "rack")
	unique(v.validation, v.raw.allMachines(), func(r **rawMachine) scalar[string] { return (*r).Name }, "machine")
	unique(v.validation, spec.Communities.v, func(e *entry[inventory.Community]) scalar[string] { return e.key }, "community")
	unique(v.validation, spec.Labels.v, func(e *entry[string]) scalar[string] { return e.key }, "label")
}

// unique refuses the second use of a name, and shows the first.
func unique[T any](validation *validation, all []T, name func(*T) scalar[string], what string) {
	seen := make(map[string]*yaml.Node, len(all))
	for i := range all {
		if n := name(&all[i]); n.given() && seen[n.v] == nil {
			seen[n.v] = n.node
		}
	}
	for i := range all {
		if n := name(&all[i]); n.given() && seen[n.v] != n.node {
			validation.refuse(n.node, refusal{code: inventory.NameTwice, message: "is the name of another " + what + " too", accepted: "a name that is used once",
				suggestion: nextName(n.v, func(s string) bool { return seen[s] != nil }), example: true}, seen[n.v])
		}
	}
}

// nextName counts a name up until it is free.
func nextName(name string, taken func(string) bool) string {
	stem := strings.TrimRight(name, "0123456789")
	width := len(name) - len(stem)
	n, err := strconv.Atoi(name[len(stem):])
	if err != nil {
		stem, width, n = name+"-", 1, 1
	}
	for i := n + 1; ; i++ {
		if next := fmt.Sprintf("%s%0*d", stem, width, i); !taken(next) {
			return next
		}
	}
}

// names of everything that can be referred to.
func (v nameChecks) rackNames() []string {
	return converted(v.inv.Racks, func(r inventory.Rack) string { return r.Name })
}

func (v nameChecks) zoneNames() []string {
	return converted(v.inv.Racks, func(r inventory.Rack) string { return r.Zone })
}

func (v nameChecks) bfdNames() []string {
	return append(converted(v.inv.BFDProfiles, func(p inventory.BFDProfile) string { return p.Name }), "off")
}

// references refuses what names something that is not there.
func (v nameChecks) references() {
	racks, routers, zones, bfd := v.rackNames(), v.routerNames(), v.zoneNames(), v.bfdNames()
	v.refer(inventory.UnknownBFD, "BFD profile", bfd, v.raw.BGP.BFD)
	v.refer(inventory.UnknownBFD, "BFD profile", bfd[:len(bfd)-1], v.raw.OnLink.BFD) // machines on a link cannot do without
	for r := range v.raw.Racks.each() {
		v.refer(inventory.UnknownRouter, "router", routers, r.Peers.v...)
		v.refer(inventory.UnknownBFD, "BFD profile", bfd, r.BFD)
		v.refer(inventory.UnknownBFD, "BFD profile", bfd[:len(bfd)-1], r.OnLink.BFD)
		v.once(r.Peers)
	}
	for _, r := range v.raw.allRouters() {
		v.refer(inventory.UnknownBFD, "BFD profile", bfd, r.BFD)
	}
	for pool := range v.raw.Pools.each() {
		for advertise := range pool.Advertise.each() {
			v.refer(inventory.UnknownRack, "rack", racks, advertise.Racks.v...)
			v.refer(inventory.UnknownZone, "zone", zones, advertise.Zones.v...)
			v.refer(inventory.UnknownRouter, "router", routers, advertise.Routers.v...)
			v.once(advertise.Racks)
			v.once(advertise.Zones)
			v.once(advertise.Routers)
			v.once(advertise.Communities)
		}
		v.once(pool.Namespaces)
	}
	for s := range v.raw.Storage.each() {
		v.refer(inventory.UnknownRack, "rack", racks, s.Rack)
	}
}

// refer refuses every name that is not among the known ones.
func (v nameChecks) refer(code inventory.Code, what string, known []string, names ...scalar[string]) {
	for _, name := range names {
		if !name.given() || slices.Contains(known, name.v) {
			continue
		}
		r := refusal{code: code, message: "there is no " + what + " of that name", suggestion: Nearest(name.v, known), accepted: "the name of a " + what}
		if len(known) > 0 && len(known) <= 20 {
			r.accepted = strings.Join(known, ", ")
		}
		v.refuse(name.node, r)
	}
}

// once warns of an entry that stands twice in one list.
func (v nameChecks) once(l list[scalar[string]]) {
	seen := map[string]*yaml.Node{}
	for _, s := range l.v {
		v.claim(seen, s.v, s.node, refusal{code: inventory.EntryTwice, severity: inventory.Warning, message: "stands in the list twice", accepted: "each entry once"})
	}
}

// expected refuses a set in which a rack or a pool is missing.
func (v nameChecks) expected() {
	pools := built(&v.raw.Pools, func(p *rawPool) string { return p.Name.v })
	v.expect("rack", v.raw.Expect.Racks, v.rackNames())
	v.expect("pool", v.raw.Expect.Pools, pools)
}

func (v nameChecks) expect(what string, all list[scalar[string]], known []string) {
	for _, name := range all.v {
		if !slices.Contains(known, name.v) {
			v.refuse(name.node, refusal{code: inventory.ExpectNotMet, message: "the " + what + " is expected, and no document has it",
				accepted: "documents with every " + what + " that is expected", suggestion: Nearest(name.v, known)})
		}
	}
}

// reservedLabels are the labels that have a field of their own.
var reservedLabels = map[string]string{
	inventory.LabelRegion: "spec.region", inventory.LabelZone: "the rack's zone", inventory.LabelType: "the machine's type",
	inventory.LabelRack: "the rack's name", inventory.LabelRow: "the rack's row", inventory.LabelUnit: "the machine's unit",
	inventory.BetaTwins[inventory.LabelRegion]: "spec.region", inventory.BetaTwins[inventory.LabelZone]: "the rack's zone", inventory.BetaTwins[inventory.LabelType]: "the machine's type",
	"kubernetes.io/hostname": "the machine's name",
}

// labelKeys refuses labels that Plinth or the kubelet fill from elsewhere.
func (v nameChecks) labelKeys() {
	v.reserved(v.raw.Labels)
	for _, m := range v.raw.allMachines() {
		v.reserved(m.Labels)
	}
}

func (v nameChecks) reserved(labels entries[string]) {
	for _, entry := range labels.v {
		from, ok := reservedLabels[entry.key.v]
		switch {
		case ok:
			r := refusal{code: inventory.ReservedLabel, message: "is filled from " + from, accepted: "labels that nothing else fills", suggestion: from}
			if strings.Contains(from, " ") {
				r.suggestion = "" // it is no key that could stand here
			}
			v.refuse(entry.key.node, r)
		case strings.HasPrefix(entry.key.v, "plinth.dev/"):
			v.refuseOwn(entry.key, "plinth.dev/")
		case recordsTaints(entry.key.v):
			v.refuseOwn(entry.key, inventory.LabelDomainTaints+"/ and its subdomains")
		}
	}
}

// recordsTaints reports whether a label belongs to the record of taints.
func recordsTaints(label string) bool {
	domain, _, _ := strings.Cut(label, "/")
	return domain == inventory.LabelDomainTaints || strings.HasSuffix(domain, "."+inventory.LabelDomainTaints)
}

func (v nameChecks) refuseOwn(key scalar[string], domain string) {
	_, name, _ := strings.Cut(key.v, "/")
	v.refuse(key.node, refusal{code: inventory.ReservedLabel, message: "is a label of Plinth's own", accepted: "labels outside " + domain, suggestion: "example.com/" + name})
}
