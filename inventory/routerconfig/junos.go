package routerconfig

import "time"

// writeJunos writes set commands for Junos.
func writeJunos(page *page, side *side, options Options) {
	if len(side.groups) == 0 {
		return
	}
	for _, f := range side.filters {
		junosFilter(page, f)
	}
	junosOut(page, side)
	page.text(`
set policy-options policy-statement PLINTH_ECMP then load-balance per-packet
# per flow, whatever the name says; without the next line one path alone is installed
set routing-options forwarding-table export PLINTH_ECMP
set routing-options autonomous-system %d
`, uint32(side.router.ASN))
	for _, g := range side.groups {
		junosGroup(page, side, g, options)
	}
	junosRacks(page, side)
}

// junosRacks writes aggregates, which are there as long as a part of them is, and
// the policy that lets them out: nothing of the kind goes out by itself.
func junosRacks(page *page, side *side) {
	if len(side.aggregates) == 0 {
		return
	}
	side.note("Racks' blocks go out where PLINTH_RACKS is the first export policy of your own groups.")
	policy := "set policy-options policy-statement PLINTH_RACKS term"
	for _, v4 := range []bool{true, false} {
		told := policy + " block-" + junosFamily(v4)
		for i, aggregate := range side.aggregatesOf(v4) {
			if v4 {
				page.line("set routing-options aggregate route %s discard", aggregate.block)
			} else {
				page.line("set routing-options rib inet6.0 aggregate route %s discard", aggregate.block)
			}
			if i == 0 {
				page.line("%s from protocol aggregate", told)
			}
			page.line("%s from route-filter %s exact", told, aggregate.block)
		}
		if len(side.aggregatesOf(v4)) > 0 {
			page.line("%s then accept", told)
		}
		part := policy + " part-" + junosFamily(v4)
		for _, block := range side.summed(v4) {
			page.line("%s from route-filter %s longer", part, block)
		}
		if len(side.summed(v4)) > 0 {
			page.line("%s then reject", part)
		}
	}
}

func junosFilter(page *page, filter *filter) {
	policy := "set policy-options policy-statement " + filter.name + "_IN"
	page.text(`
set policy-options community PLINTH_GSHUT members graceful-shutdown
%[1]s term gshut from community PLINTH_GSHUT
%[1]s term gshut then local-preference 0
%[1]s term gshut then next term
`, policy)
	for _, l := range filter.lists() {
		term := policy + " term " + l.name
		page.line("%s from family %s", term, junosFamily(l.v4))
		for _, r := range l.rules {
			if r.exact() {
				page.line("%s from route-filter %s exact", term, r.block)
			} else {
				page.line("%s from route-filter %s prefix-length-range /%d-/%d", term, r.block, r.length, r.length)
			}
		}
		page.line("%s then accept", term)
	}
	page.line("%s then reject", policy)
}

func junosOut(page *page, s *side) {
	if s.tellsNothing() {
		page.line("set policy-options policy-statement PLINTH_NONE then reject")
	}
	if !s.learns() {
		return
	}
	for _, v4 := range []bool{true, false} {
		page.text(`
set policy-options policy-statement PLINTH_DEFAULT term %[1]s from family %[1]s
set policy-options policy-statement PLINTH_DEFAULT term %[1]s from route-filter %[2]s exact
set policy-options policy-statement PLINTH_DEFAULT term %[1]s then accept
`, junosFamily(v4), defaultRoute(v4))
	}
	page.line("set policy-options policy-statement PLINTH_DEFAULT then reject")
}

func junosGroup(page *page, side *side, group *group, options Options) {
	set := "set protocols bgp group " + group.name
	if group.terms.IBGP() {
		page.text(`
%[1]s type internal
%[1]s multipath
`, set)
	} else {
		page.text(`
%[1]s type external
%[1]s peer-as %[2]d
%[1]s multipath multiple-as
`, set, uint32(group.terms.LocalASN))
	}
	page.line("%s passive", set)
	switch {
	case group.terms.TTLSecurity:
		side.note("Machines take only packets with a TTL of 255, which the switch sends. That it takes no others needs a firewall filter on lo0, which is the router's own.")
		page.line("%s ttl 255", set)
	case group.terms.Multihop > 0:
		page.line("%s multihop ttl %d", set, group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		page.line("%s local-address %s", set, group.terms.RouterAddr)
	}
	page.password(group, options, set+" authentication-key %q", "# "+set+` authentication-key "<%s>"`)
	if b := group.terms.BFD; b.Name != "" {
		page.text(`
%[1]s bfd-liveness-detection minimum-interval %[2]d
%[1]s bfd-liveness-detection multiplier %[3]d
`, set, b.Interval/time.Millisecond, b.Multiplier)
	}
	page.text(`
%[1]s import %[2]s_IN
%[1]s export %[3]s
`, set, group.filter.name, outMap(group))
	for _, v4 := range []bool{true, false} {
		if group.carries(v4) {
			// Without teardown Junos only logs. It warns from 80 % on, and lets the session
			// come back after 5 minutes.
			page.text(`
%[1]s family %[2]s unicast prefix-limit maximum %[3]d
%[1]s family %[2]s unicast prefix-limit teardown 80 idle-timeout 5
`, set, junosFamily(v4), group.limit(v4))
		}
	}
	for _, m := range group.members {
		page.line("%s neighbor %s description %q", set, m.addr, m.description())
	}
}

func junosFamily(v4 bool) string { return either(v4, "inet", "inet6") }
