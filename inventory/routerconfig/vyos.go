package routerconfig

import (
	"time"
)

// vyosPaths is how many equal paths VyOS takes.
const vyosPaths = 256

// writeVyOS writes commands for VyOS 1.4's configuration mode.
func writeVyOS(p *page, s *side, o Options) {
	if len(s.groups) == 0 {
		return
	}
	// VyOS 1.4 and 1.5 write FRR's maximum-prefix without its restart.
	s.note("VyOS has no timer beside a limit on prefixes: a session that was closed by its limit stays down until reset bgp with the machine's address.")
	for _, f := range s.filters {
		vyosFilter(p, f)
	}
	vyosOut(p, s)
	for _, b := range s.profiles() {
		set := "set protocols bfd profile plinth-" + b.Name
		p.line("%s interval multiplier %d", set, b.Multiplier)
		p.line("%s interval receive %d", set, b.Interval/time.Millisecond)
		p.line("%s interval transmit %d", set, b.Interval/time.Millisecond)
	}
	p.line("set protocols bgp system-as %d", uint32(s.router.ASN))
	if s.ebgp() {
		p.line("set protocols bgp parameters bestpath as-path multipath-relax")
	}
	for _, v4 := range []bool{true, false} {
		paths := "set protocols bgp address-family ipv" + digit(v4) + "-unicast maximum-paths"
		if s.carries(v4) && s.ebgp() {
			p.line("%s ebgp %d", paths, min(s.paths, vyosPaths))
		}
		if s.carries(v4) && s.ibgp() {
			p.line("%s ibgp %d", paths, min(s.paths, vyosPaths))
		}
		for _, a := range s.aggregatesOf(v4) {
			p.line("set protocols bgp address-family ipv%s-unicast aggregate-address %s%s", digit(v4), a.block, only(a, " summary-only"))
		}
	}
	for _, g := range s.groups {
		vyosGroup(p, g, o)
	}
}

func vyosFilter(p *page, f *filter) {
	for i, l := range f.lists() {
		list, match := "prefix-list", "ip"
		if !l.v4 {
			list, match = "prefix-list6", "ipv6"
		}
		for j, r := range l.rules {
			set := "set policy " + list + " " + l.name + " rule"
			n := 10 * (j + 1)
			p.line("%s %d action permit", set, n)
			p.line("%s %d prefix %s", set, n, r.block)
			if !r.exact() {
				p.line("%s %d ge %d", set, n, r.length)
				p.line("%s %d le %d", set, n, r.length)
			}
		}
		p.line("set policy route-map %s_IN rule %d action permit", f.name, 10*(i+1))
		p.line("set policy route-map %s_IN rule %d match %s address prefix-list %s", f.name, 10*(i+1), match, l.name)
	}
	p.line("set policy route-map %s_IN rule 100 action deny", f.name)
}

func vyosOut(p *page, s *side) {
	if s.any(func(g *group) bool { return !g.learns() }) {
		p.line("set policy route-map PLINTH_NONE rule 10 action deny")
	}
	if !s.learns() {
		return
	}
	p.line("set policy prefix-list PLINTH_DEFAULT4 rule 10 action permit")
	p.line("set policy prefix-list PLINTH_DEFAULT4 rule 10 prefix 0.0.0.0/0")
	p.line("set policy prefix-list6 PLINTH_DEFAULT6 rule 10 action permit")
	p.line("set policy prefix-list6 PLINTH_DEFAULT6 rule 10 prefix ::/0")
	p.line("set policy route-map PLINTH_DEFAULT rule 10 action permit")
	p.line("set policy route-map PLINTH_DEFAULT rule 10 match ip address prefix-list PLINTH_DEFAULT4")
	p.line("set policy route-map PLINTH_DEFAULT rule 20 action permit")
	p.line("set policy route-map PLINTH_DEFAULT rule 20 match ipv6 address prefix-list PLINTH_DEFAULT6")
	p.line("set policy route-map PLINTH_DEFAULT rule 100 action deny")
}

func vyosGroup(p *page, g *group, o Options) {
	set := "set protocols bgp peer-group " + g.name
	p.line("%s remote-as %d", set, uint32(g.terms.LocalASN))
	p.line("%s passive", set)
	switch {
	case g.terms.TTLSecurity:
		p.line("%s ttl-security hops 1", set)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s ebgp-multihop %d", set, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s update-source %s", set, g.terms.RouterAddr)
	}
	if word, ok := o.password(g); ok {
		p.line("%s password '%s'", set, word)
	} else if g.needsPassword(o) {
		p.remark("%s password '<key %s of Secret %s>'", set, g.terms.Password.Key, g.terms.Password.Secret)
	}
	if b := g.terms.BFD.Name; b != "" {
		p.line("%s bfd profile plinth-%s", set, b)
	}
	for _, v4 := range []bool{true, false} {
		if !g.carries(v4) {
			continue
		}
		af := set + " address-family ipv" + digit(v4) + "-unicast"
		p.line("%s route-map import %s_IN", af, g.filter.name)
		p.line("%s route-map export %s", af, outMap(g))
		p.line("%s maximum-prefix %d", af, g.limit(v4))
	}
	for _, m := range g.members {
		p.line("set protocols bgp neighbor %s peer-group %s", m.addr, g.name)
		p.line("set protocols bgp neighbor %s description '%s'", m.addr, m.description())
	}
}
