package routerconfig

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"plinth.dev/plinth/inventory"
)

// eosPaths is how many equal paths most of Arista's switches take.
const eosPaths = 128

// writeEOS writes a part of the running configuration of Arista EOS.
func writeEOS(p *page, s *side, o Options) {
	if len(s.groups) == 0 {
		return
	}
	for _, f := range s.filters {
		eosFilter(p, f)
	}
	eosOut(p, s)
	eosBFD(p, s)
	paths := min(s.paths, eosPaths)
	p.line("router bgp %d", uint32(s.router.ASN))
	p.line("   maximum-paths %d ecmp %d", paths, paths)
	if s.ebgp() {
		p.line("   bgp bestpath as-path multipath-relax")
	}
	for _, g := range s.groups {
		eosGroup(p, s, g, o)
	}
	for _, a := range s.aggregates {
		p.line("   aggregate-address %s%s", a.block, only(a, " summary-only"))
	}
	for _, v4 := range []bool{true, false} {
		p.line("   address-family ipv%s", digit(v4))
		for _, g := range s.groups {
			p.line("      %sneighbor %s activate", map[bool]string{true: "", false: "no "}[g.carries(v4)], g.name)
		}
	}
	p.line("!")
}

func eosFilter(p *page, f *filter) {
	for _, l := range f.lists() {
		if !l.v4 {
			p.line("ipv6 prefix-list %s", l.name)
		}
		for i, r := range l.rules {
			entry := fmt.Sprintf("seq %d permit %s", 10*(i+1), r.block)
			if !r.exact() {
				entry += fmt.Sprintf(" ge %d le %d", r.length, r.length)
			}
			if l.v4 {
				entry = "ip prefix-list " + l.name + " " + entry
			} else {
				entry = "   " + entry
			}
			p.line("%s", entry)
		}
		p.line("!")
	}
	p.line("ip community-list PLINTH_GSHUT permit GSHUT")
	seq := 10
	for _, l := range f.lists() {
		p.text(`
route-map %[1]s_IN permit %[2]d
   match %[4]s address prefix-list %[5]s
   match community PLINTH_GSHUT
   set local-preference 0
!
route-map %[1]s_IN permit %[3]d
   match %[4]s address prefix-list %[5]s
!
`, f.name, seq, seq+5, ip(l.v4), l.name)
		seq += 10
	}
	p.text(`
route-map %s_IN deny 100
!
`, f.name)
}

func eosOut(p *page, s *side) {
	if s.tellsNothing() {
		p.text(`
route-map PLINTH_NONE deny 10
!
`)
	}
	if s.learns() {
		p.text(`
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
func eosBFD(p *page, s *side) {
	profiles := s.profiles()
	if len(profiles) == 0 {
		return
	}
	b := slices.MinFunc(profiles, func(a, b inventory.BFDProfile) int { return cmp.Compare(a.Interval, b.Interval) })
	ms := b.Interval / time.Millisecond
	s.note("BFD timers are one for the whole switch: %d ms x %d.", ms, b.Multiplier)
	p.text(`
router bfd
   interval %[1]d min-rx %[1]d multiplier %[2]d default
!
`, ms, b.Multiplier)
}

func eosGroup(p *page, s *side, g *group, o Options) {
	n := "   neighbor " + g.name
	p.text(`
%[1]s peer group
%[1]s remote-as %[2]d
%[1]s passive
`, n, uint32(g.terms.LocalASN))
	switch {
	case g.terms.TTLSecurity:
		p.line("%s ttl maximum-hops 1", n)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s ebgp-multihop %d", n, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		s.note("Sessions come from %s: name the interface that has it in update-source.", g.terms.RouterAddr)
		p.remark("%s update-source <the interface with %s>", n[3:], g.terms.RouterAddr)
	}
	p.password(g, o, n+" password 0 %s", "! "+n[3:]+" password 0 <%s>")
	if g.terms.BFD.Name != "" {
		p.line("%s bfd", n)
	}
	if g.terms.RestartTime > 0 {
		p.line("%s graceful-restart-helper", n)
	}
	// The timer is in seconds; without it the session stays down until somebody clears it.
	p.text(`
%[1]s route-map %[2]s_IN in
%[1]s route-map %[3]s out
%[1]s maximum-routes %[4]d
%[1]s idle-restart-timer 300
`, n, g.filter.name, outMap(g), bothLimits(g))
	for _, m := range g.members {
		p.text(`
   neighbor %[1]s peer group %[2]s
   neighbor %[1]s description %[3]s
`, m.addr, g.name, m.description())
	}
}
