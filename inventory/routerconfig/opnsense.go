package routerconfig

import (
	"fmt"
	"strings"
)

// writeOPNsense writes what to fill in and to click in the forms of os-frr, in
// their order; lists as CSV, for those who would rather use its API.
func writeOPNsense(p *page, s *side, o Options) {
	if len(s.groups) == 0 {
		return
	}
	s.note("The forms have no limit on prefixes: the filter alone protects the firewall.")
	if len(s.aggregates) > 0 {
		s.note("The forms have no field for racks' blocks: others hear of each machine's pod CIDR, if of any.")
	}
	p.text(`
Routing > General
  Enable                          yes
  Firewall rules                  yes

Routing > BGP > General
  Enable                          yes
  BGP AS Number                   %d
  Bestpath                        as-path multipath-relax
`, uint32(s.router.ASN))
	if s.ebgp() {
		p.line("  Maximum Paths                   %d", min(s.paths, 64))
	}
	if s.ibgp() {
		p.line("  Maximum Paths iBGP              %d", min(s.paths, 64))
	}
	p.line("")
	opnsensePrefixLists(p, s)
	opnsenseRouteMaps(p, s)
	opnsenseNeighbors(p, s, o)
	if len(s.profiles()) > 0 {
		p.text(`
Routing > BFD > General
  Enable                          yes

`)
	}
	p.line("Apply.")
}

func opnsensePrefixLists(p *page, s *side) {
	p.text(`
Routing > BGP > Prefix Lists
Name,IP Version,Number,Action,Network
`)
	for _, f := range s.filters {
		for _, l := range f.lists() {
			for i, r := range l.rules {
				p.line("%s,IPv%s,%d,Permit,%s", l.name, digit(l.v4), 10*(i+1), geLe(r))
			}
		}
	}
	if s.learns() {
		p.text(`
PLINTH_DEFAULT4,IPv4,10,Permit,0.0.0.0/0
PLINTH_DEFAULT6,IPv6,10,Permit,::/0
`)
	}
	p.line("")
}

func opnsenseRouteMaps(p *page, s *side) {
	p.text(`
Routing > BGP > Route Maps
Name,Action,ID,Prefix List
`)
	for _, f := range s.filters {
		for i, l := range f.lists() {
			p.line("%s_IN,Permit,%d,%s", f.name, 10*(i+1), l.name)
		}
		p.line("%s_IN,Deny,100,", f.name)
	}
	if s.tellsNothing() {
		p.line("PLINTH_NONE,Deny,10,")
	}
	if s.learns() {
		p.text(`
PLINTH_DEFAULT,Permit,10,PLINTH_DEFAULT4
PLINTH_DEFAULT,Permit,20,PLINTH_DEFAULT6
PLINTH_DEFAULT,Deny,100,
`)
	}
	p.line("")
}

func opnsenseNeighbors(p *page, s *side, o Options) {
	p.line("Routing > BGP > Neighbors")
	p.line("Description,Peer-IP,Remote AS,Update-Source,Multi-Hop,Multi-Protocol,BFD,Password,Route-Map In,Route-Map Out")
	for _, g := range s.groups {
		password, _ := o.password(g)
		if g.needsPassword(o) {
			password = fmt.Sprintf("<key %s of Secret %s>", g.terms.Password.Key, g.terms.Password.Secret)
		}
		for _, m := range g.members {
			p.line("%s", strings.Join([]string{
				m.description(), m.addr.String(), fmt.Sprint(uint32(g.terms.LocalASN)), "the interface with " + g.terms.RouterAddr.String(),
				yes(g.terms.Multihop > 0), yes(g.carries(true) && g.carries(false)), yes(g.terms.BFD.Name != ""),
				password, g.filter.name + "_IN", outMap(g),
			}, ","))
		}
	}
	p.line("")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
