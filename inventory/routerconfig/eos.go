package routerconfig

import (
	"fmt"
	"time"
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
		ip := ip(l.v4)
		p.line("route-map %s_IN permit %d", f.name, seq)
		p.line("   match %s address prefix-list %s", ip, l.name)
		p.line("   match community PLINTH_GSHUT")
		p.line("   set local-preference 0")
		p.line("!")
		p.line("route-map %s_IN permit %d", f.name, seq+5)
		p.line("   match %s address prefix-list %s", ip, l.name)
		p.line("!")
		seq += 10
	}
	p.line("route-map %s_IN deny 100", f.name)
	p.line("!")
}

func eosOut(p *page, s *side) {
	if s.any(func(g *group) bool { return !g.learns() }) {
		p.line("route-map PLINTH_NONE deny 10")
		p.line("!")
	}
	if !s.learns() {
		return
	}
	p.line("ip prefix-list PLINTH_DEFAULT4 seq 10 permit 0.0.0.0/0")
	p.line("!")
	p.line("ipv6 prefix-list PLINTH_DEFAULT6")
	p.line("   seq 10 permit ::/0")
	p.line("!")
	p.line("route-map PLINTH_DEFAULT permit 10")
	p.line("   match ip address prefix-list PLINTH_DEFAULT4")
	p.line("!")
	p.line("route-map PLINTH_DEFAULT permit 20")
	p.line("   match ipv6 address prefix-list PLINTH_DEFAULT6")
	p.line("!")
	p.line("route-map PLINTH_DEFAULT deny 100")
	p.line("!")
}

// eosBFD writes the timers that all sessions of the switch share.
func eosBFD(p *page, s *side) {
	profiles := s.profiles()
	if len(profiles) == 0 {
		return
	}
	b := profiles[0]
	for _, other := range profiles[1:] {
		if other.Interval < b.Interval {
			b = other
		}
	}
	ms := b.Interval / time.Millisecond
	s.note("BFD timers are one for the whole switch: %d ms x %d.", ms, b.Multiplier)
	p.line("router bfd")
	p.line("   interval %d min-rx %d multiplier %d default", ms, ms, b.Multiplier)
	p.line("!")
}

func eosGroup(p *page, s *side, g *group, o Options) {
	n := "   neighbor " + g.name
	p.line("%s peer group", n)
	p.line("%s remote-as %d", n, uint32(g.terms.LocalASN))
	p.line("%s passive", n)
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
	if word, ok := o.password(g); ok {
		p.line("%s password 0 %s", n, word)
	} else if g.needsPassword(o) {
		p.remark("%s password 0 <key %s of Secret %s>", n[3:], g.terms.Password.Key, g.terms.Password.Secret)
	}
	if g.terms.BFD.Name != "" {
		p.line("%s bfd", n)
	}
	if g.terms.RestartTime > 0 {
		p.line("%s graceful-restart-helper", n)
	}
	p.line("%s route-map %s_IN in", n, g.filter.name)
	p.line("%s route-map %s out", n, outMap(g))
	p.line("%s maximum-routes %d", n, bothLimits(g))
	p.line("%s idle-restart-timer 300", n) // in seconds; without it the session stays down until somebody clears it
	for _, m := range g.members {
		p.line("   neighbor %s peer group %s", m.addr, g.name)
		p.line("   neighbor %s description %s", m.addr, m.description())
	}
}
