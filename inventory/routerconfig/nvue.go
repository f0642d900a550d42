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
			rule := fmt.Sprintf("%s rule %d", list, 10*(j+1))
			p.line("%s match %s min-prefix-len %d", rule, r.block, r.length)
			p.line("%s match %s max-prefix-len %d", rule, r.block, r.length)
			p.line("%s action permit", rule)
		}
		rule := fmt.Sprintf("nv set router policy route-map %s_IN rule %d", f.name, 10*(i+1))
		p.line("%s match type %s", rule, ipv(l.v4))
		p.line("%s match ip-prefix-list %s", rule, l.name)
		p.line("%s action permit", rule)
	}
	p.line("nv set router policy route-map %s_IN rule 100 action deny", f.name)
}

func nvueOut(p *page, s *side) {
	if s.any(func(g *group) bool { return !g.learns() }) {
		p.line("nv set router policy route-map PLINTH_NONE rule 10 action deny")
	}
	if !s.learns() {
		return
	}
	for i, v4 := range []bool{true, false} {
		list := "PLINTH_DEFAULT" + digit(v4)
		p.line("nv set router policy prefix-list %s type %s", list, ipv(v4))
		p.line("nv set router policy prefix-list %s rule 10 match %s", list, defaultRoute(v4))
		p.line("nv set router policy prefix-list %s rule 10 action permit", list)
		rule := fmt.Sprintf("nv set router policy route-map PLINTH_DEFAULT rule %d", 10*(i+1))
		p.line("%s match type %s", rule, ipv(v4))
		p.line("%s match ip-prefix-list %s", rule, list)
		p.line("%s action permit", rule)
	}
	p.line("nv set router policy route-map PLINTH_DEFAULT rule 100 action deny")
}

func nvueGroup(p *page, bgp string, g *group, o Options) {
	set := bgp + " peer-group " + g.name
	p.line("%s remote-as %d", set, uint32(g.terms.LocalASN))
	p.line("%s passive-mode on", set)
	switch {
	case g.terms.TTLSecurity:
		p.line("%s ttl-security enable on", set)
		p.line("%s ttl-security hops 1", set)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s multihop-ttl %d", set, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s update-source %s", set, g.terms.RouterAddr)
	}
	if word, ok := o.password(g); ok {
		p.line("%s password '%s'", set, word)
	} else if g.needsPassword(o) {
		p.remark("%s password '<key %s of Secret %s>'", set, g.terms.Password.Key, g.terms.Password.Secret)
	}
	if b := g.terms.BFD; b.Name != "" {
		p.line("%s bfd enable on", set)
		p.line("%s bfd detect-multiplier %d", set, b.Multiplier)
		p.line("%s bfd min-rx-interval %d", set, b.Interval/time.Millisecond)
		p.line("%s bfd min-tx-interval %d", set, b.Interval/time.Millisecond)
	}
	for _, v4 := range []bool{true, false} {
		af := fmt.Sprintf("%s address-family %s-unicast", set, ipv(v4))
		if !g.carries(v4) {
			p.line("%s enable off", af)
			continue
		}
		p.line("%s enable on", af)
		p.line("%s policy inbound route-map %s_IN", af, g.filter.name)
		p.line("%s policy outbound route-map %s", af, outMap(g))
		p.line("%s prefix-limits inbound maximum %d", af, g.limit(v4))
	}
	for _, m := range g.members {
		p.line("%s neighbor %s peer-group %s", bgp, m.addr, g.name)
		p.line("%s neighbor %s description '%s'", bgp, m.addr, m.description())
	}
}
