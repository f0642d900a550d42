package routerconfig

import (
	"fmt"
	"strings"
)

// writeOPNsense writes what to fill in and to click in the forms of os-frr, in
// their order; lists as CSV, for those who would rather use its API.
func writeOPNsense(page *page, side *side, options Options) {
	if len(side.groups) == 0 {
		return
	}
	side.note("The forms have no limit on prefixes: the filter alone protects the firewall.")
	if len(side.aggregates) > 0 {
		side.note("The forms have no field for racks' blocks: others hear of each machine's pod CIDR, if of any.")
	}
	page.text(`
Routing > General
  Enable                          yes
  Firewall rules                  yes

Routing > BGP > General
  Enable                          yes
  BGP AS Number                   %d
  Bestpath                        as-path multipath-relax
`, uint32(side.router.ASN))
	if side.ebgp() {
		page.line("  Maximum Paths                   %d", min(side.paths, 64))
	}
	if side.ibgp() {
		page.line("  Maximum Paths iBGP              %d", min(side.paths, 64))
	}
	page.line("")
	opnsensePrefixLists(page, side)
	opnsenseRouteMaps(page, side)
	opnsenseNeighbors(page, side, options)
	if len(side.profiles()) > 0 {
		page.text(`
Routing > BFD > General
  Enable                          yes

`)
	}
	page.line("Apply.")
}

func opnsensePrefixLists(page *page, side *side) {
	page.text(`
Routing > BGP > Prefix Lists
Name,IP Version,Number,Action,Network
`)
	for _, f := range side.filters {
		for _, l := range f.lists() {
			for i, r := range l.rules {
				page.line("%s,IPv%s,%d,Permit,%s", l.name, digit(l.v4), 10*(i+1), geLe(r))
			}
		}
	}
	if side.learns() {
		page.text(`
PLINTH_DEFAULT4,IPv4,10,Permit,0.0.0.0/0
PLINTH_DEFAULT6,IPv6,10,Permit,::/0
`)
	}
	page.line("")
}

func opnsenseRouteMaps(page *page, side *side) {
	page.text(`
Routing > BGP > Route Maps
Name,Action,ID,Prefix List
`)
	for _, f := range side.filters {
		for i, l := range f.lists() {
			page.line("%s_IN,Permit,%d,%s", f.name, 10*(i+1), l.name)
		}
		page.line("%s_IN,Deny,100,", f.name)
	}
	if side.tellsNothing() {
		page.line("PLINTH_NONE,Deny,10,")
	}
	if side.learns() {
		page.text(`
PLINTH_DEFAULT,Permit,10,PLINTH_DEFAULT4
PLINTH_DEFAULT,Permit,20,PLINTH_DEFAULT6
PLINTH_DEFAULT,Deny,100,
`)
	}
	page.line("")
}

func opnsenseNeighbors(page *page, s *side, o Options) {
	page.line("Routing > BGP > Neighbors")
	page.line("Description,Peer-IP,Remote AS,Update-Source,Multi-Hop,Multi-Protocol,BFD,Password,Route-Map In,Route-Map Out")
	for _, group := range s.groups {
		password, _ := o.password(group)
		if group.needsPassword(o) {
			password = fmt.Sprintf("<key %s of Secret %s>", group.terms.Password.Key, group.terms.Password.Secret)
		}
		for _, m := range group.members {
			page.line("%s", strings.Join([]string{
				m.description(), m.addr.String(), fmt.Sprint(uint32(group.terms.LocalASN)), "the interface with " + group.terms.RouterAddr.String(),
				yes(group.terms.Multihop > 0), yes(group.carries(true) && group.carries(false)), yes(group.terms.BFD.Name != ""),
				password, group.filter.name + "_IN", outMap(group),
			}, ","))
		}
	}
	page.line("")
}

func yes(b bool) string { return either(b, "yes", "no") }
