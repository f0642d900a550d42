package routerconfig

import (
	"fmt"
	"time"
)

// nvuePaths is how many equal paths Cumulus Linux takes.
const nvuePaths = 256

// writeNVUE writes commands for NVUE of Cumulus Linux 5.
func writeNVUE(p *page, s *side, o Options) {
	if len(s.groups) == 0 {
		return
	}
	s.note("Read what nv config diff prints: nv config apply puts into force all that is pending, whoever set it. With --confirm it is taken back after 10 minutes unless nv config apply --confirm-yes follows.")
	for _, f := range s.filters {
		nvueFilter(p, f)
	}
	nvueOut(p, s)
	bgp := "nv set vrf default router bgp"
	p.line("%s autonomous-system %d", bgp, uint32(s.router.ASN))
	if s.ebgp() {
		p.line("%s path-selection multipath aspath-ignore on", bgp)
	}
	for _, v4 := range []bool{true, false} {
		if !s.carries(v4) {
			continue
		}
		af := fmt.Sprintf("%s address-family ipv%s-unicast", bgp, digit(v4))
		p.line("%s enable on", af)
		if s.ebgp() {
			p.line("%s multipaths ebgp %d", af, min(s.paths, nvuePaths))
		}
		if s.ibgp() {
			p.line("%s multipaths ibgp %d", af, min(s.paths, nvuePaths))
		}
		for _, a := range s.aggregatesOf(v4) {
			p.line("%s aggregate-route %s%s", af, a.block, only(a, " summary-only on"))
		}
	}
	for _, g := range s.groups {
		nvueGroup(p, bgp, g, o)
	}
	// To apply is a person's word: it puts into force all that is pending, whoever set it.
	p.line("nv config diff")
	p.remark("nv config apply --confirm")
}

func nvueFilter(p *page, f *filter) {
	for i, l := range f.lists() {
		list := "nv set router policy prefix-list " + l.name
		p.line("%s type %s", list, ipv(l.v4))
		for j, r := range l.rules {
			p.text(`
%[1]s rule %[2]d match %[3]s min-prefix-len %[4]d
%[1]s rule %[2]d match %[3]s max-prefix-len %[4]d
%[1]s rule %[2]d action permit
`, list, 10*(j+1), r.block, r.length)
		}
		nvuePermit(p, f.name+"_IN", 10*(i+1), l.name, l.v4)
	}
	p.line("nv set router policy route-map %s_IN rule 100 action deny", f.name)
}

// nvuePermit writes a rule of a route map that lets in what a prefix list has.
func nvuePermit(p *page, routeMap string, rule int, list string, v4 bool) {
	p.text(`
nv set router policy route-map %[1]s rule %[2]d match type %[3]s
nv set router policy route-map %[1]s rule %[2]d match ip-prefix-list %[4]s
nv set router policy route-map %[1]s rule %[2]d action permit
`, routeMap, rule, ipv(v4), list)
}

func nvueOut(p *page, s *side) {
	if s.tellsNothing() {
		p.line("nv set router policy route-map PLINTH_NONE rule 10 action deny")
	}
	if !s.learns() {
		return
	}
	for i, v4 := range []bool{true, false} {
		list := "PLINTH_DEFAULT" + digit(v4)
		p.text(`
nv set router policy prefix-list %[1]s type %[2]s
nv set router policy prefix-list %[1]s rule 10 match %[3]s
nv set router policy prefix-list %[1]s rule 10 action permit
`, list, ipv(v4), defaultRoute(v4))
		nvuePermit(p, "PLINTH_DEFAULT", 10*(i+1), list, v4)
	}
	p.line("nv set router policy route-map PLINTH_DEFAULT rule 100 action deny")
}

func nvueGroup(p *page, bgp string, g *group, o Options) {
	set := bgp + " peer-group " + g.name
	p.text(`
%[1]s remote-as %[2]d
%[1]s passive-mode on
`, set, uint32(g.terms.LocalASN))
	switch {
	case g.terms.TTLSecurity:
		p.text(`
%[1]s ttl-security enable on
%[1]s ttl-security hops 1
`, set)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s multihop-ttl %d", set, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s update-source %s", set, g.terms.RouterAddr)
	}
	p.password(g, o, set+" password '%s'", "# "+set+" password '<%s>'")
	if b := g.terms.BFD; b.Name != "" {
		p.text(`
%[1]s bfd enable on
%[1]s bfd detect-multiplier %[2]d
%[1]s bfd min-rx-interval %[3]d
%[1]s bfd min-tx-interval %[3]d
`, set, b.Multiplier, b.Interval/time.Millisecond)
	}
	for _, v4 := range []bool{true, false} {
		af := fmt.Sprintf("%s address-family %s-unicast", set, ipv(v4))
		if !g.carries(v4) {
			p.line("%s enable off", af)
			continue
		}
		p.text(`
%[1]s enable on
%[1]s policy inbound route-map %[2]s_IN
%[1]s policy outbound route-map %[3]s
%[1]s prefix-limits inbound maximum %[4]d
`, af, g.filter.name, outMap(g), g.limit(v4))
	}
	for _, m := range g.members {
		p.text(`
%[1]s neighbor %[2]s peer-group %[3]s
%[1]s neighbor %[2]s description '%[4]s'
`, bgp, m.addr, g.name, m.description())
	}
}
