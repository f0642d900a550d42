package routerconfig

import (
	"fmt"
	"time"
)

// vyosPaths is the number of equal paths that VyOS takes.
const vyosPaths = 256

// writeVyOS writes commands for VyOS 1.4's configuration mode.
func writeVyOS(page *page, side *side, options Options) {
	if len(side.groups) == 0 {
		return
	}
	// VyOS 1.4 and 1.5 write FRR's maximum-prefix without its restart.
	side.note("VyOS has no timer beside a limit on prefixes: a session that was closed by its limit stays down until reset bgp with the machine's address.")
	for _, f := range side.filters {
		vyosFilter(page, f)
	}
	vyosOut(page, side)
	for _, profile := range side.profiles() {
		set := "set protocols bfd profile plinth-" + profile.Name
		page.text(`
%[1]s interval multiplier %[2]d
%[1]s interval receive %[3]d
%[1]s interval transmit %[3]d
`, set, profile.Multiplier, profile.Interval/time.Millisecond)
	}
	page.line("set protocols bgp system-as %d", uint32(side.router.ASN))
	if side.ebgp() {
		page.line("set protocols bgp parameters bestpath as-path multipath-relax")
	}
	for _, v4 := range []bool{true, false} {
		paths := "set protocols bgp address-family ipv" + digit(v4) + "-unicast maximum-paths"
		if side.carries(v4) && side.ebgp() {
			page.line("%s ebgp %d", paths, min(side.paths, vyosPaths))
		}
		if side.carries(v4) && side.ibgp() {
			page.line("%s ibgp %d", paths, min(side.paths, vyosPaths))
		}
		for _, a := range side.aggregatesOf(v4) {
			page.line("set protocols bgp address-family ipv%s-unicast aggregate-address %s%s", digit(v4), a.block, only(a, " summary-only"))
		}
	}
	for _, g := range side.groups {
		vyosGroup(page, g, options)
	}
}

func vyosFilter(page *page, filter *filter) {
	for i, prefixList := range filter.lists() {
		list := either(prefixList.v4, "prefix-list", "prefix-list6")
		for j, rule := range prefixList.rules {
			set := fmt.Sprintf("set policy %s %s rule %d", list, prefixList.name, 10*(j+1))
			page.text(`
%[1]s action permit
%[1]s prefix %[2]s
`, set, rule.block)
			if !rule.exact() {
				page.text(`
%[1]s ge %[2]d
%[1]s le %[2]d
`, set, rule.length)
			}
		}
		page.text(`
set policy route-map %[1]s_IN rule %[2]d action permit
set policy route-map %[1]s_IN rule %[2]d match %[3]s address prefix-list %[4]s
`, filter.name, 10*(i+1), ip(prefixList.v4), prefixList.name)
	}
	page.line("set policy route-map %s_IN rule 100 action deny", filter.name)
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

func vyosGroup(page *page, group *group, options Options) {
	set := "set protocols bgp peer-group " + group.name
	page.text(`
%[1]s remote-as %[2]d
%[1]s passive
`, set, uint32(group.terms.LocalASN))
	switch {
	case group.terms.TTLSecurity:
		page.line("%s ttl-security hops 1", set)
	case group.terms.Multihop > 0 && !group.terms.IBGP():
		page.line("%s ebgp-multihop %d", set, group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		page.line("%s update-source %s", set, group.terms.RouterAddr)
	}
	page.password(group, options, set+" password '%s'", "# "+set+" password '<%s>'")
	if b := group.terms.BFD.Name; b != "" {
		page.line("%s bfd profile plinth-%s", set, b)
	}
	for _, v4 := range []bool{true, false} {
		if !group.carries(v4) {
			continue
		}
		af := set + " address-family ipv" + digit(v4) + "-unicast"
		page.text(`
%[1]s route-map import %[2]s_IN
%[1]s route-map export %[3]s
%[1]s maximum-prefix %[4]d
`, af, group.filter.name, outMap(group), group.limit(v4))
	}
	for _, m := range group.members {
		page.text(`
set protocols bgp neighbor %[1]s peer-group %[2]s
set protocols bgp neighbor %[1]s description '%[3]s'
`, m.addr, group.name, m.description())
	}
}
