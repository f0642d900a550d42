package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// peering holds the racks that have sessions with a router, and the AS number of their machines.
type peering struct {
	router string        // empty: it is left out, and the AS number counts alone
	racks  []string      // nil: all
	asn    inventory.ASN // of the machines; 0: nobody said it
	object *object       // that says so, with the field that has the AS number
	path   string
	places []string // fields of the object that say nothing but which racks these are
}

// peer adds a peering: the machines of some racks, or all, have sessions with a router. Each source adds its own: the peers of a rack are
// worked out once all were read.
func (d *draft) peer(p peering) { d.peerings = append(d.peerings, p) }

// of reports whether the machines of a rack have the session.
func (p peering) of(rack string) bool { return p.racks == nil || slices.Contains(p.racks, rack) }

// peerRacks gives racks their routers. A router of some racks alone stands in the first of them, and not in the spec, for a rack that says
// nothing has sessions with all routers that do.
func (d *draft) peerRacks() {
	some, everybodys := map[string][]string{}, map[string]bool{}
	for _, p := range d.peerings {
		some[p.router] = append(some[p.router], p.racks...)
		everybodys[p.router] = everybodys[p.router] || p.racks == nil
	}
	for _, p := range d.peerings {
		if p.racks != nil && everybodys[p.router] {
			d.tellPlaces(p)
		}
	}
	for i := range d.inv.Routers {
		if r := &d.inv.Routers[i]; !everybodys[r.Name] && len(some[r.Name]) > 0 {
			r.Rack = slices.Min(some[r.Name])
			d.comments["spec.racks["+r.Rack+"].routers["+r.Name+"]"] = d.comments["spec.routers["+r.Name+"]"]
		}
	}
	for i := range d.inv.Racks {
		rack := &d.inv.Racks[i]
		for _, r := range d.inv.Routers {
			if everybodys[r.Name] || slices.Contains(some[r.Name], rack.Name) {
				rack.Peers = append(rack.Peers, r.Name)
			}
		}
	}
}

// tellPlaces notes which racks were to have a router that all have by what another object says.
func (d *draft) tellPlaces(p peering) {
	for _, path := range p.places {
		if p.object.has(path) {
			d.overrideAndNote(p.object, path, Differs, fmt.Sprintf("all machines have sessions with router %s, as another object says: it is no rack's own", p.router))
		}
	}
}

// ourASNs sets the machines' AS numbers: the first one is that of the inventory, another one that of the racks which it was given for. Where a
// session would have another one than before, a note records it.
func (d *draft) ourASNs() {
	for _, peering := range d.peerings {
		if d.inv.BGP.ASN == 0 && peering.asn != 0 {
			d.inv.BGP.ASN = peering.asn
			d.comment("spec.bgp", peering.object)
		}
		for i := range d.inv.Racks {
			if rack := &d.inv.Racks[i]; slices.Contains(peering.racks, rack.Name) {
				rack.ASN = cmp.Or(rack.ASN, peering.asn)
			}
		}
	}
	d.guessASN()
	for i := range d.inv.Racks {
		d.inv.Racks[i].ASN = cmp.Or(d.inv.Racks[i].ASN, d.inv.BGP.ASN)
	}
	for _, peering := range d.peerings {
		if other := d.otherASNs(peering); peering.asn != 0 && other != "" {
			peering.object.mark(noted, peering.path)
			at, whole := "at router "+peering.router, "at this router, too"
			if peering.router == "" {
				at, whole = "for routers that are left out", "whoever it has sessions with"
			}
			d.note(peering.object, peering.path, Differs, fmt.Sprintf("%v %s, and %s by another peer: the machines of a rack have one AS number, %s", peering.asn, at, other, whole))
		}
	}
}

// guessASN takes a private AS number (RFC 6996) that no router has where nobody said that of the machines.
func (d *draft) guessASN() {
	if d.inv.BGP.ASN != 0 || len(d.inv.Routers) == 0 {
		return
	}
	d.inv.BGP.ASN = 64512
	for slices.ContainsFunc(d.inv.Routers, func(r inventory.Router) bool { return r.ASN == d.inv.BGP.ASN }) {
		d.inv.BGP.ASN++
	}
	d.guess("spec.bgp.asn", fmt.Sprintf("nothing that was read says the machines' AS number: %v is a guess", d.inv.BGP.ASN))
}

// otherASNs returns the AS numbers that the machines of a peering have instead of its own, each with its racks; empty: none.
func (d *draft) otherASNs(one peering) string {
	if len(d.inv.Racks) == 0 && one.asn != d.inv.BGP.ASN {
		return fmt.Sprintf("all machines have %v", d.inv.BGP.ASN)
	}
	var others []string
	for _, rack := range d.inv.Racks {
		if one.of(rack.Name) && rack.ASN != one.asn {
			others = append(others, fmt.Sprintf("rack %s has %v", rack.Name, rack.ASN))
		}
	}
	return strings.Join(others, ", ")
}

// part holds the pools and routers that one source added to a draft.
type part struct {
	pools   [2]int   // from the first to before the last one
	routers []string // that its machines have sessions with; nil: unknown, or none
}

// readPart reads a source, and remembers what it added.
func (d *draft) readPart(s source) {
	pools, peerings := len(d.inv.Pools), len(d.peerings)
	d.leftOut = false
	s.read(d)
	added := part{pools: [2]int{pools, len(d.inv.Pools)}}
	if !d.leftOut && s.name != "netbox" { // which documents pools and routers, and announces nothing
		for _, one := range d.peerings[peerings:] {
			if one.router != "" {
				added.routers = addEach(added.routers, []string{one.router})
			}
		}
	}
	slices.Sort(added.routers)
	d.parts = append(d.parts, added)
}

// keepRouters has a source's pools be announced to the routers of that source where others have routers, too: each balancer knows its own alone. Where a router of
// it could not be carried over, it has to be written by hand, and all routers stay.
func (d *draft) keepRouters() {
	for _, part := range d.parts {
		if len(part.routers) == 0 || len(part.routers) == len(d.inv.Routers) {
			continue
		}
		for i := part.pools[0]; i < part.pools[1]; i++ {
			pool := &d.inv.Pools[i]
			if pool.Via == inventory.ViaLink {
				continue
			}
			if len(pool.Advertise) == 0 {
				pool.Advertise = []inventory.Advertise{newAdvertise()}
			}
			for j := range pool.Advertise {
				if a := &pool.Advertise[j]; len(a.Routers) == 0 {
					a.Routers = part.routers
				}
			}
		}
	}
}
