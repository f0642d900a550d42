package routerconfig

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
)

// eosPaths is the number of equal paths that most of Arista's switches take.
const eosPaths = 128

// writeEOS writes a part of the running configuration of Arista EOS.
func writeEOS(page *page, side *side, options Options) {
	if len(side.groups) == 0 {
		return
	}
	for _, f := range side.filters {
		eosFilter(page, f)
	}
	eosOut(page, side)
	eosBFD(page, side)
	paths := min(side.paths, eosPaths)
	page.line("router bgp %d", uint32(side.router.ASN))
	page.line("   maximum-paths %d ecmp %d", paths, paths)
	if side.ebgp() {
		page.line("   bgp bestpath as-path multipath-relax")
	}
	for _, g := range side.groups {
		eosGroup(page, side, g, options)
	}
	for _, a := range side.aggregates {
		page.line("   aggregate-address %s%s", a.block, only(a, " summary-only"))
	}
	for _, v4 := range []bool{true, false} {
		page.line("   address-family ipv%s", digit(v4))
		for _, g := range side.groups {
			page.line("      %sneighbor %s activate", either(g.carries(v4), "", "no "), g.name)
		}
	}
	page.line("!")
}

func eosFilter(page *page, filter *filter) {
	for _, list := range filter.lists() {
		if !list.v4 {
			page.line("ipv6 prefix-list %s", list.name)
		}
		for i, r := range list.rules {
			entry := fmt.Sprintf("seq %d permit %s", 10*(i+1), r.block)
			if !r.exact() {
				entry += fmt.Sprintf(" ge %d le %d", r.length, r.length)
			}
			if list.v4 {
				entry = "ip prefix-list " + list.name + " " + entry
			} else {
				entry = "   " + entry
			}
			page.line("%s", entry)
		}
		page.line("!")
	}
	page.line("ip community-list PLINTH_GSHUT permit GSHUT")
	seq := 10
	for _, list := range filter.lists() {
		page.text(`
route-map %[1]s_IN permit %[2]d
   match %[4]s address prefix-list %[5]s
   match community PLINTH_GSHUT
   set local-preference 0
!
route-map %[1]s_IN permit %[3]d
   match %[4]s address prefix-list %[5]s
!
`, filter.name, seq, seq+5, ip(list.v4), list.name)
		seq += 10
	}
	page.text(`
route-map %s_IN deny 100
!
`, filter.name)
}

func eosOut(page *page, side *side) {
	if side.tellsNothing() {
		page.text(`
route-map PLINTH_NONE deny 10
!
`)
	}
	if side.learns() {
		page.text(`
ip prefix-list PLINTH_DEFAULT4 seq 10 permit 0.0.0.0/0
!
ipv6 prefix-list PLINTH_DEFAULT6
   seq 10 permit ::/0
!
route-map PLINTH_DEFAULT permit 10
   match ip address prefix-list PLINTH_DEFAULT4
!
route-map PLINTH_DEFAULT permit 20
   match ipv6 address prefix-list PLINTH_DEFAULT6
!
route-map PLINTH_DEFAULT deny 100
!
`)
	}
}

// eosBFD writes the timers that all sessions of the switch share.
func eosBFD(page *page, side *side) {
	profiles := side.profiles()
	if len(profiles) == 0 {
		return
	}
	profile := slices.MinFunc(profiles, func(a, b inventory.BFDProfile) int { return cmp.Compare(a.Interval, b.Interval) })
	ms := profile.Interval / time.Millisecond
	side.note("BFD timers are one for the whole switch: %d ms x %d.", ms, profile.Multiplier)
	page.text(`
router bfd
   interval %[1]d min-rx %[1]d multiplier %[2]d default
!
`, ms, profile.Multiplier)
}

func eosGroup(page *page, side *side, group *group, options Options) {
	name := "   neighbor " + group.name
	page.text(`
%[1]s peer group
%[1]s remote-as %[2]d
%[1]s passive
`, name, uint32(group.terms.LocalASN))
	switch {
	case group.terms.TTLSecurity:
		page.line("%s ttl maximum-hops 1", name)
	case group.terms.Multihop > 0 && !group.terms.IBGP():
		page.line("%s ebgp-multihop %d", name, group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		side.note("Sessions come from %s: name the interface that has it in update-source.", group.terms.RouterAddr)
		page.remark("%s update-source <the interface with %s>", name[3:], group.terms.RouterAddr)
	}
	page.password(group, options, name+" password 0 %s", "! "+name[3:]+" password 0 <%s>")
	if group.terms.BFD.Name != "" {
		page.line("%s bfd", name)
	}
	if group.terms.RestartTime > 0 {
		page.line("%s graceful-restart-helper", name)
	}
	// The timer is in seconds; without it the session stays down until an operator clears it.
	page.text(`
%[1]s route-map %[2]s_IN in
%[1]s route-map %[3]s out
%[1]s maximum-routes %[4]d
%[1]s idle-restart-timer 300
`, name, group.filter.name, outMap(group), bothLimits(group))
	for _, m := range group.members {
		page.text(`
   neighbor %[1]s peer group %[2]s
   neighbor %[1]s description %[3]s
`, m.addr, group.name, m.description())
	}
}
