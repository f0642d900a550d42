package routerconfig

import (
	"fmt"
	"time"
)

// nvuePaths is the number of equal paths that Cumulus Linux takes.
const nvuePaths = 256

// writeNVUE writes commands for NVUE of Cumulus Linux 5.
func writeNVUE(page *page, side *side, options Options) {
	if len(side.groups) == 0 {
		return
	}
	side.note("Read what nv config diff prints: nv config apply puts into force all that is pending, whoever set it. With --confirm it is taken back after 10 minutes unless nv config apply --confirm-yes follows.")
	for _, f := range side.filters {
		nvueFilter(page, f)
	}
	nvueOut(page, side)
	bgp := "nv set vrf default router bgp"
	page.line("%s autonomous-system %d", bgp, uint32(side.router.ASN))
	if side.ebgp() {
		page.line("%s path-selection multipath aspath-ignore on", bgp)
	}
	for _, v4 := range []bool{true, false} {
		if !side.carries(v4) {
			continue
		}
		af := fmt.Sprintf("%s address-family ipv%s-unicast", bgp, digit(v4))
		page.line("%s enable on", af)
		if side.ebgp() {
			page.line("%s multipaths ebgp %d", af, min(side.paths, nvuePaths))
		}
		if side.ibgp() {
			page.line("%s multipaths ibgp %d", af, min(side.paths, nvuePaths))
		}
		for _, a := range side.aggregatesOf(v4) {
			page.line("%s aggregate-route %s%s", af, a.block, only(a, " summary-only on"))
		}
	}
	for _, g := range side.groups {
		nvueGroup(page, bgp, g, options)
	}
	// To apply is for a person: it puts into force all that is pending, of any user.
	page.line("nv config diff")
	page.remark("nv config apply --confirm")
}

func nvueFilter(page *page, filter *filter) {
	for i, prefixList := range filter.lists() {
		list := "nv set router policy prefix-list " + prefixList.name
		page.line("%s type %s", list, ipv(prefixList.v4))
		for j, r := range prefixList.rules {
			page.text(`
%[1]s rule %[2]d match %[3]s min-prefix-len %[4]d
%[1]s rule %[2]d match %[3]s max-prefix-len %[4]d
%[1]s rule %[2]d action permit
`, list, 10*(j+1), r.block, r.length)
		}
		nvuePermit(page, filter.name+"_IN", 10*(i+1), prefixList.name, prefixList.v4)
	}
	page.line("nv set router policy route-map %s_IN rule 100 action deny", filter.name)
}

// nvuePermit writes a rule of a route map that lets in what a prefix list has.
func nvuePermit(p *page, routeMap string, rule int, list string, v4 bool) {
	p.text(`
nv set router policy route-map %[1]s rule %[2]d match type %[3]s
nv set router policy route-map %[1]s rule %[2]d match ip-prefix-list %[4]s
nv set router policy route-map %[1]s rule %[2]d action permit
`, routeMap, rule, ipv(v4), list)
}

func nvueOut(page *page, s *side) {
	if s.tellsNothing() {
		page.line("nv set router policy route-map PLINTH_NONE rule 10 action deny")
	}
	if !s.learns() {
		return
	}
	for i, v4 := range []bool{true, false} {
		list := "PLINTH_DEFAULT" + digit(v4)
		page.text(`
nv set router policy prefix-list %[1]s type %[2]s
nv set router policy prefix-list %[1]s rule 10 match %[3]s
nv set router policy prefix-list %[1]s rule 10 action permit
`, list, ipv(v4), defaultRoute(v4))
		nvuePermit(page, "PLINTH_DEFAULT", 10*(i+1), list, v4)
	}
	page.line("nv set router policy route-map PLINTH_DEFAULT rule 100 action deny")
}

func nvueGroup(page *page, bgp string, group *group, options Options) {
	set := bgp + " peer-group " + group.name
	page.text(`
%[1]s remote-as %[2]d
%[1]s passive-mode on
`, set, uint32(group.terms.LocalASN))
	switch {
	case group.terms.TTLSecurity:
		page.text(`
%[1]s ttl-security enable on
%[1]s ttl-security hops 1
`, set)
	case group.terms.Multihop > 0 && !group.terms.IBGP():
		page.line("%s multihop-ttl %d", set, group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		page.line("%s update-source %s", set, group.terms.RouterAddr)
	}
	page.password(group, options, set+" password '%s'", "# "+set+" password '<%s>'")
	if profile := group.terms.BFD; profile.Name != "" {
		page.text(`
%[1]s bfd enable on
%[1]s bfd detect-multiplier %[2]d
%[1]s bfd min-rx-interval %[3]d
%[1]s bfd min-tx-interval %[3]d
`, set, profile.Multiplier, profile.Interval/time.Millisecond)
	}
	for _, v4 := range []bool{true, false} {
		af := fmt.Sprintf("%s address-family %s-unicast", set, ipv(v4))
		if !group.carries(v4) {
			page.line("%s enable off", af)
			continue
		}
		page.text(`
%[1]s enable on
%[1]s policy inbound route-map %[2]s_IN
%[1]s policy outbound route-map %[3]s
%[1]s prefix-limits inbound maximum %[4]d
`, af, group.filter.name, outMap(group), group.limit(v4))
	}
	for _, m := range group.members {
		page.text(`
%[1]s neighbor %[2]s peer-group %[3]s
%[1]s neighbor %[2]s description '%[4]s'
`, bgp, m.addr, group.name, m.description())
	}
}
