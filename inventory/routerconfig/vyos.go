package routerconfig

import (
	"fmt"
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
		p.text(`
%[1]s interval multiplier %[2]d
%[1]s interval receive %[3]d
%[1]s interval transmit %[3]d
`, set, b.Multiplier, b.Interval/time.Millisecond)
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
		list := "prefix-list"
		if !l.v4 {
			list = "prefix-list6"
		}
		for j, r := range l.rules {
			set := fmt.Sprintf("set policy %s %s rule %d", list, l.name, 10*(j+1))
			p.text(`
%[1]s action permit
%[1]s prefix %[2]s
`, set, r.block)
			if !r.exact() {
				p.text(`
%[1]s ge %[2]d
%[1]s le %[2]d
`, set, r.length)
			}
		}
		p.text(`
set policy route-map %[1]s_IN rule %[2]d action permit
set policy route-map %[1]s_IN rule %[2]d match %[3]s address prefix-list %[4]s
`, f.name, 10*(i+1), ip(l.v4), l.name)
	}
	p.line("set policy route-map %s_IN rule 100 action deny", f.name)
}

func vyosOut(p *page, s *side) {
	if s.tellsNothing() {
		p.line("set policy route-map PLINTH_NONE rule 10 action deny")
	}
	if s.learns() {
		p.text(`
set policy prefix-list PLINTH_DEFAULT4 rule 10 action permit
set policy prefix-list PLINTH_DEFAULT4 rule 10 prefix 0.0.0.0/0
set policy prefix-list6 PLINTH_DEFAULT6 rule 10 action permit
set policy prefix-list6 PLINTH_DEFAULT6 rule 10 prefix ::/0
set policy route-map PLINTH_DEFAULT rule 10 action permit
set policy route-map PLINTH_DEFAULT rule 10 match ip address prefix-list PLINTH_DEFAULT4
set policy route-map PLINTH_DEFAULT rule 20 action permit
set policy route-map PLINTH_DEFAULT rule 20 match ipv6 address prefix-list PLINTH_DEFAULT6
set policy route-map PLINTH_DEFAULT rule 100 action deny
`)
	}
}

func vyosGroup(p *page, g *group, o Options) {
	set := "set protocols bgp peer-group " + g.name
	p.text(`
%[1]s remote-as %[2]d
%[1]s passive
`, set, uint32(g.terms.LocalASN))
	switch {
	case g.terms.TTLSecurity:
		p.line("%s ttl-security hops 1", set)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s ebgp-multihop %d", set, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s update-source %s", set, g.terms.RouterAddr)
	}
	p.password(g, o, set+" password '%s'", "# "+set+" password '<%s>'")
	if b := g.terms.BFD.Name; b != "" {
		p.line("%s bfd profile plinth-%s", set, b)
	}
	for _, v4 := range []bool{true, false} {
		if !g.carries(v4) {
			continue
		}
		af := set + " address-family ipv" + digit(v4) + "-unicast"
		p.text(`
%[1]s route-map import %[2]s_IN
%[1]s route-map export %[3]s
%[1]s maximum-prefix %[4]d
`, af, g.filter.name, outMap(g), g.limit(v4))
	}
	for _, m := range g.members {
		p.text(`
set protocols bgp neighbor %[1]s peer-group %[2]s
set protocols bgp neighbor %[1]s description '%[3]s'
`, m.addr, g.name, m.description())
	}
}
