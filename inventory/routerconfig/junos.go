package routerconfig

import "time"

// writeJunos writes set commands for Junos.
func writeJunos(p *page, s *side, o Options) {
	if len(s.groups) == 0 {
		return
	}
	for _, f := range s.filters {
		junosFilter(p, f)
	}
	junosOut(p, s)
	p.text(`
set policy-options policy-statement PLINTH_ECMP then load-balance per-packet
# per flow, whatever the name says; without the next line one path alone is installed
set routing-options forwarding-table export PLINTH_ECMP
set routing-options autonomous-system %d
`, uint32(s.router.ASN))
	for _, g := range s.groups {
		junosGroup(p, s, g, o)
	}
	junosRacks(p, s)
}

// junosRacks writes aggregates, which are there as long as a part of them is, and
// the policy that lets them out: nothing of the kind goes out by itself.
func junosRacks(p *page, s *side) {
	if len(s.aggregates) == 0 {
		return
	}
	s.note("Racks' blocks go out where PLINTH_RACKS is the first export policy of your own groups.")
	policy := "set policy-options policy-statement PLINTH_RACKS term"
	for _, v4 := range []bool{true, false} {
		told := policy + " block-" + junosFamily(v4)
		for i, a := range s.aggregatesOf(v4) {
			if v4 {
				p.line("set routing-options aggregate route %s discard", a.block)
			} else {
				p.line("set routing-options rib inet6.0 aggregate route %s discard", a.block)
			}
			if i == 0 {
				p.line("%s from protocol aggregate", told)
			}
			p.line("%s from route-filter %s exact", told, a.block)
		}
		if len(s.aggregatesOf(v4)) > 0 {
			p.line("%s then accept", told)
		}
		part := policy + " part-" + junosFamily(v4)
		for _, block := range s.summed(v4) {
			p.line("%s from route-filter %s longer", part, block)
		}
		if len(s.summed(v4)) > 0 {
			p.line("%s then reject", part)
		}
	}
}

func junosFilter(p *page, f *filter) {
	policy := "set policy-options policy-statement " + f.name + "_IN"
	p.text(`
set policy-options community PLINTH_GSHUT members graceful-shutdown
%[1]s term gshut from community PLINTH_GSHUT
%[1]s term gshut then local-preference 0
%[1]s term gshut then next term
`, policy)
	for _, l := range f.lists() {
		term := policy + " term " + l.name
		p.line("%s from family %s", term, junosFamily(l.v4))
		for _, r := range l.rules {
			if r.exact() {
				p.line("%s from route-filter %s exact", term, r.block)
			} else {
				p.line("%s from route-filter %s prefix-length-range /%d-/%d", term, r.block, r.length, r.length)
			}
		}
		p.line("%s then accept", term)
	}
	p.line("%s then reject", policy)
}

func junosOut(p *page, s *side) {
	if s.tellsNothing() {
		p.line("set policy-options policy-statement PLINTH_NONE then reject")
	}
	if !s.learns() {
		return
	}
	for _, v4 := range []bool{true, false} {
		p.text(`
set policy-options policy-statement PLINTH_DEFAULT term %[1]s from family %[1]s
set policy-options policy-statement PLINTH_DEFAULT term %[1]s from route-filter %[2]s exact
set policy-options policy-statement PLINTH_DEFAULT term %[1]s then accept
`, junosFamily(v4), defaultRoute(v4))
	}
	p.line("set policy-options policy-statement PLINTH_DEFAULT then reject")
}

func junosGroup(p *page, s *side, g *group, o Options) {
	set := "set protocols bgp group " + g.name
	if g.terms.IBGP() {
		p.text(`
%[1]s type internal
%[1]s multipath
`, set)
	} else {
		p.text(`
%[1]s type external
%[1]s peer-as %[2]d
%[1]s multipath multiple-as
`, set, uint32(g.terms.LocalASN))
	}
	p.line("%s passive", set)
	switch {
	case g.terms.TTLSecurity:
		s.note("Machines take only packets with a TTL of 255, which the switch sends. That it takes no others needs a firewall filter on lo0, which is the router's own.")
		p.line("%s ttl 255", set)
	case g.terms.Multihop > 0:
		p.line("%s multihop ttl %d", set, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s local-address %s", set, g.terms.RouterAddr)
	}
	p.password(g, o, set+" authentication-key %q", "# "+set+` authentication-key "<%s>"`)
	if b := g.terms.BFD; b.Name != "" {
		p.text(`
%[1]s bfd-liveness-detection minimum-interval %[2]d
%[1]s bfd-liveness-detection multiplier %[3]d
`, set, b.Interval/time.Millisecond, b.Multiplier)
	}
	p.text(`
%[1]s import %[2]s_IN
%[1]s export %[3]s
`, set, g.filter.name, outMap(g))
	for _, v4 := range []bool{true, false} {
		if g.carries(v4) {
			// Without teardown Junos only logs. It warns from 80 % on, and lets the session
			// come back after 5 minutes.
			p.text(`
%[1]s family %[2]s unicast prefix-limit maximum %[3]d
%[1]s family %[2]s unicast prefix-limit teardown 80 idle-timeout 5
`, set, junosFamily(v4), g.limit(v4))
		}
	}
	for _, m := range g.members {
		p.line("%s neighbor %s description %q", set, m.addr, m.description())
	}
}

func junosFamily(v4 bool) string {
	if v4 {
		return "inet"
	}
	return "inet6"
}
