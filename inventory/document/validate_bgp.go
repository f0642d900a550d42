package document

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

// sessionChecks are the checks of routers and the sessions with them.
type sessionChecks struct{ *validation }

// routers checks that each has one address, or one of each family.
func (v sessionChecks) routers() {
	for _, router := range v.raw.allRouters() {
		written := v.has(router.node, "address") || v.has(router.node, "addresses")
		switch {
		case !written:
			v.refuse(router.node, refusal{code: inventory.Missing, message: "address is missing", accepted: "address: …, or addresses: [IPv4, IPv6]"})
		case router.Address.given() && len(router.Addresses.v) > 0:
			v.refuse(router.Address.node, refusal{code: inventory.Conflicting, message: "address and addresses are given at once", accepted: "one of the two",
				suggestion: "addresses: " + flowList(append([]netip.Addr{router.Address.v}, values(router.Addresses)...))}, router.Addresses.node)
		case len(router.Addresses.v) == 2 && router.Addresses.v[0].v.Is4() == router.Addresses.v[1].v.Is4(), len(router.Addresses.v) > 2:
			second := router.Addresses.v[1]
			v.refuse(second.node, refusal{code: inventory.SameFamily, message: "a router has at most one address of each family", accepted: "one IPv4 and one IPv6 address, or routers of their own"}, router.Addresses.v[0].node)
		}
	}
}

// linkLocals refuses two routers of a rack that have one link-local address on one interface:
// a machine's sessions with both go to the same end. Routers of other racks are on links of
// their own, and often have the same address there.
func (v sessionChecks) linkLocals() {
	told := map[*yaml.Node]bool{}
	for _, rack := range v.inv.Racks {
		seen := map[netip.Addr]*yaml.Node{}
		for _, scalar := range v.linkLocalsOf(rack) {
			first, taken := seen[scalar.v]
			if !taken {
				seen[scalar.v] = scalar.node
			} else if !told[scalar.node] {
				told[scalar.node] = true
				v.refuse(scalar.node, refusal{code: inventory.AddressTwice, message: fmt.Sprintf("is the address of another router of rack %s on the same interface", rack.Name),
					accepted: "an address that no other router of the rack has there, or another interface", suggestion: v.nextAddress(scalar.v), example: true}, first)
			}
		}
	}
}

// linkLocalsOf are the link-local addresses of the routers that a rack's machines have
// sessions with, in the order in which they were written.
func (v sessionChecks) linkLocalsOf(rack inventory.Rack) (all []scalar[netip.Addr]) {
	if len(rack.Machines) == 0 {
		return nil
	}
	for _, r := range v.raw.allRouters() {
		for _, a := range r.allAddresses() {
			if a.v.Zone() != "" && slices.Contains(rack.Peers, r.Name.v) {
				all = append(all, a)
			}
		}
	}
	return all
}

// bfd refuses a profile whose name means that there is none.
func (v sessionChecks) bfd() {
	for p := range v.raw.BFDProfiles.each() {
		if n := p.Name; n.v == "off" {
			v.refuse(n.node, refusal{code: inventory.BadName, message: "off means no BFD", accepted: "another name", suggestion: "slow"})
		}
	}
}

// sessions checks what only the two ends together show.
func (v sessionChecks) sessions() {
	v.localPrefs()
	racks := map[string]int{}
	for raw := range v.raw.Racks.each() {
		racks[raw.Name.v]++
	}
	for raw := range v.raw.Racks.each() {
		rack, ok := v.inv.Rack(raw.Name.v)
		if !ok || len(rack.Machines) == 0 || racks[raw.Name.v] > 1 { // of two it is not known which one is meant
			continue
		}
		if len(rack.Peers) == 0 {
			v.noPeers(raw)
			continue
		}
		if rack.ASN == 0 && !v.has(raw.node, "asn") && !v.has(v.raw.BGP.node, "asn") {
			v.refuse(raw.node, refusal{code: inventory.NoASN, message: "the rack's machines have sessions but no AS number", accepted: "asn in spec.bgp or in the rack", suggestion: "spec.bgp.asn: 64512", example: true})
		}
		for _, name := range rack.Peers {
			v.pair(raw, rack, name)
		}
		v.machineSessions(raw, rack)
	}
	v.publicASNs()
}

// publicASNs warns of AS numbers of machines that most likely have another owner: they are public, and no router is of
// such an AS.
func (v sessionChecks) publicASNs() {
	written := map[inventory.ASN]scalar[inventory.ASN]{}
	isOfRouter := map[inventory.ASN]bool{}
	for raw := range v.raw.Racks.each() {
		asn := raw.ASN
		if !asn.given() {
			asn = v.raw.BGP.ASN
		}
		if _, isKnown := written[asn.v]; !isKnown {
			written[asn.v] = asn
		}
	}
	for _, router := range v.raw.allRouters() {
		isOfRouter[router.ASN.v] = true
	}
	free := inventory.ASN(64512)
	for isOfRouter[free] {
		free++
	}
	for _, number := range slices.Sorted(maps.Keys(written)) {
		if number.Public() && !isOfRouter[number] {
			v.refuse(written[number].node, refusal{code: inventory.PublicASN, severity: inventory.Warning, message: "is the number of a public AS, and no router is of that AS",
				accepted: "a number for private use, 64512 to 65534 or 4200000000 to 4294967294, or an AS of yours", suggestion: free.String(), example: true})
		}
	}
}

// noPeers warns of a rack that is to announce VIPs and has no peer.
func (v sessionChecks) noPeers(raw *rawRack) {
	if slices.ContainsFunc(v.inv.Pools, func(p inventory.Pool) bool {
		return !p.OnLinksOnly() && (p.Via != inventory.ViaLink || len(p.Links) > 0)
	}) {
		v.refuse(raw.node, refusal{code: inventory.NoPeers, severity: inventory.Warning, message: "the rack's machines have no router to announce VIPs to",
			accepted: "routers in the rack or in the spec, or peers; or subnets that addresses of a pool lie in", suggestion: v.wayOut(raw), example: true})
	}
}

// pair checks a rack against one of its routers.
func (v sessionChecks) pair(raw *rawRack, rack inventory.Rack, name string) {
	router, ok := v.inv.Router(name)
	if !ok {
		return
	}
	o := v.inv.SessionOptions(rack, router)
	hops, gtsm := int(o.Multihop.Value), o.TTLSecurity.Value
	if hops > 0 && gtsm {
		said := v.raw.session(raw, v.raw.router(name))
		v.refuse(said.Multihop.node, refusal{code: inventory.SecurityMultihop, message: "ttlSecurity is for directly connected neighbours", accepted: "multihop: 0, or ttlSecurity: false", suggestion: "0"}, said.TTLSecurity.node)
	}
	if hops == 0 && router.ASN != rack.ASN {
		v.unreachable(raw, rack, router)
	}
}

// unreachable warns of a router off the rack's subnets: a session between two
// ASes takes one hop unless multihop says otherwise (RFC 4271, section 5.1.3).
func (v sessionChecks) unreachable(raw *rawRack, rack inventory.Rack, router inventory.Router) {
	for _, addr := range router.Addresses {
		if addr.Zone() != "" {
			continue
		}
		var same []string
		for _, s := range rack.Subnets {
			if s.Addr().Is4() == addr.Is4() {
				same = append(same, s.String())
			}
		}
		if len(same) == 0 || slices.ContainsFunc(rack.Subnets, func(s netip.Prefix) bool { return s.Contains(addr) }) {
			continue
		}
		v.refuse(v.routerNode(router.Name), refusal{code: inventory.RouterUnreachable, severity: inventory.Warning, value: addr.String(),
			message: fmt.Sprintf("is outside the subnets of rack %s, and its sessions take one hop", rack.Name), accepted: "an address in " + strings.Join(same, " or ") + ", or multihop", suggestion: "multihop: 2"}, raw.Subnets.node)
	}
}

// routerNode returns the node where the router's address was written.
func (v sessionChecks) routerNode(name string) *yaml.Node {
	r := v.raw.router(name)
	return cmp.Or(r.Address.node, r.Addresses.node, r.node)
}

// machineSessions warns of machines that have no address of any family of their
// routers, or none on the link of one.
func (v sessionChecks) machineSessions(raw *rawRack, rack inventory.Rack) {
	for i := range raw.Machines.v {
		machine := &raw.Machines.v[i]
		if len(machine.Addresses.v) == 0 || machine.State.v == inventory.StateRetired {
			continue
		}
		sessions := v.inv.Sessions(rack.Machines[i])
		for _, s := range sessions {
			v.offLink(machine, rack, s)
			v.writable(raw, s)
		}
		if len(sessions) == 0 && v.routersHaveAddresses(rack) {
			v.refuse(machine.Addresses.node, refusal{code: inventory.FamiliesApart, severity: inventory.Warning, message: "no router of the rack has an address of the machine's family, so it has no session",
				accepted: "an address of a family that a router has"}, v.routerNode(rack.Peers[0]))
		}
	}
}

// offLink warns of a session that takes one hop and comes from another subnet of the
// rack than the router is in.
func (v sessionChecks) offLink(machine *rawMachine, rack inventory.Rack, session inventory.Session) {
	if session.Multihop > 0 || session.IBGP() || !session.Local.IsValid() || rack.HasBoth(session.Local, session.RouterAddr) {
		return
	}
	var around []string
	for _, p := range rack.Subnets {
		if p.Contains(session.RouterAddr) {
			around = append(around, p.String())
		}
	}
	if len(around) == 0 {
		return // unreachable told that already
	}
	v.refuse(machine.Addresses.node, refusal{code: inventory.RouterUnreachable, severity: inventory.Warning, message: fmt.Sprintf("has none in the subnet of router %s, %v, and their session takes one hop", session.Router, session.RouterAddr),
		accepted: "an address in " + strings.Join(around, " or ") + " as well, or multihop"}, v.routerNode(session.Router))
}

func (v sessionChecks) routersHaveAddresses(rack inventory.Rack) bool {
	return slices.ContainsFunc(rack.Peers, func(name string) bool {
		r, ok := v.inv.Router(name)
		return ok && len(r.Addresses) > 0
	})
}

// localPrefs warns of a LOCAL_PREF that is sent to no router.
func (v sessionChecks) localPrefs() {
	if len(v.inv.Routers) == 0 || v.anyInternal() {
		return
	}
	for p := range v.raw.Pools.each() {
		if pool, _ := v.inv.Pool(p.Name.v); pool.OnLinksOnly() {
			continue
		}
		for a := range p.Advertise.each() {
			if l := a.LocalPref; l.given() && l.v != inventory.DefaultLocalPref {
				v.refuse(l.node, refusal{code: inventory.LocalPrefUnused, severity: inventory.Warning, message: "is sent within one AS only, and every router is of another", accepted: "no localPref, or routers of the machines' AS", suggestion: "prepend: 1"})
			}
		}
	}
}

// anyInternal reports whether a session stays within one AS.
func (v sessionChecks) anyInternal() bool {
	for _, rack := range v.inv.Racks {
		for _, p := range rack.Peers {
			if r, ok := v.inv.Router(p); ok && r.ASN == rack.ASN {
				return true
			}
		}
	}
	return false
}

// wayOut returns a suggestion for a rack whose machines have no peer to announce VIPs to: the networks that they are in as its
// subnets, where a pool overlaps these, or else a router.
func (v sessionChecks) wayOut(rack *rawRack) string {
	networks := v.networksOf(rack)
	for _, p := range v.inv.Pools {
		if len(rack.Subnets.v) == 0 && slices.ContainsFunc(networks, p.Overlaps) {
			return subnetsLine(networks)
		}
	}
	if len(networks) == 0 {
		return ""
	}
	gateway := networks[0].Masked().Addr().Next() // the address that most have
	if _, taken := v.hostAt(gateway); taken {
		gateway, _ = netip.ParseAddr(v.nextAddress(gateway))
	}
	own := cmp.Or(rack.ASN.v, v.inv.BGP.ASN, 64512)
	name := "router"
	if slices.Contains(v.routerNames(), name) {
		name = nextName(name, func(s string) bool { return slices.Contains(v.routerNames(), s) })
	}
	lines := []string{fmt.Sprintf("routers: [{name: %s, address: %s, asn: %d}]", name, quoted(gateway.String()), own+1)}
	if rack.ASN.v == 0 && v.inv.BGP.ASN == 0 {
		lines = append([]string{fmt.Sprintf("asn: %d", own)}, lines...)
	}
	return strings.Join(lines, "\n")
}

// turnedOn holds the places in a document where a feature is turned on, where not in the router alone, and the text that
// turns it off for the router.
var turnedOn = map[inventory.Feature]struct {
	where   func(*rawSession) *yaml.Node
	without string
}{
	inventory.OtherPort: {without: "port: 179"},
	inventory.UsesBFD:   {func(r *rawSession) *yaml.Node { return r.BFD.node }, `bfd: "off"`},
	inventory.TTL:       {func(r *rawSession) *yaml.Node { return r.TTLSecurity.node }, "ttlSecurity: false"},
	inventory.TTLOfIBGP: {func(r *rawSession) *yaml.Node { return r.TTLSecurity.node }, "ttlSecurity: false"},
}

// systems refuses a router's os that nothing can be written for.
func (v sessionChecks) systems() {
	for _, r := range v.raw.allRouters() {
		if r.OS.given() && !slices.Contains(inventory.Languages(), r.OS.v) {
			v.refuse(r.OS.node, refusal{code: inventory.UnknownWord, message: "is no system that router-config writes for",
				accepted: strings.Join(inventory.Languages(), ", ") + ", or no os for a router whose side you write by hand", suggestion: wordMeant(r.OS.v, inventory.Languages())})
		}
	}
}

// writable refuses a session whose other end cannot be written in the router's language, once
// a router.
func (v sessionChecks) writable(raw *rawRack, session inventory.Session) {
	router := v.raw.router(session.Router)
	if !router.OS.given() || v.unwritable[session.Router] {
		return
	}
	lacks := inventory.Lacks(router.OS.v, session)
	if lacks == "" {
		return
	}
	v.unwritable[session.Router] = true
	where := cmp.Or(router.Port.node, router.Address.node, router.Addresses.node)
	feature := turnedOn[lacks]
	if feature.where != nil {
		said := v.raw.session(raw, router)
		where = feature.where(&said)
	}
	byHand := "no os for a router whose side you write by hand"
	if feature.without != "" {
		byHand = feature.without + " for this router, or " + byHand
	}
	v.refuse(router.OS.node, refusal{code: inventory.CannotWrite, message: fmt.Sprintf("%s cannot do %s, which the sessions of rack %s with this router use", router.OS.v, lacks, raw.Name.v),
		accepted: byHand, suggestion: feature.without}, where)
}
