package routerconfig

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// frrPaths is how many equal paths FRR's packages are built for.
const frrPaths = 256

// frrListen is how many neighbours of ranges FRR takes at least.
const frrListen = 100

// writeFRR writes commands for vtysh -f, or a part of frr.conf. Sessions carry
// policies in both directions, so that bgp ebgp-requires-policy may stay on.
func writeFRR(p *page, s *side, o Options) {
	if o.Standalone {
		p.text(`
hostname %s
ip forwarding
ipv6 forwarding
!
`, s.router.Name)
	}
	for _, f := range s.filters {
		frrLists(p, f)
		frrRouteMap(p, f)
	}
	frrOut(p, s)
	frrBFD(p, s.profiles())
	if len(s.groups) == 0 {
		return
	}
	if port := s.router.Port; port != 179 {
		s.note("Machines connect to port %d: start bgpd with -p %d.", port, port)
	}
	p.line("router bgp %d", uint32(s.router.ASN))
	if id := inventory.FirstOf(s.router.Addresses, true); o.Standalone && id.IsValid() {
		p.line(" bgp router-id %s", id)
	}
	if s.ebgp() {
		p.line(" bgp bestpath as-path multipath-relax")
	}
	if o.Dynamic {
		p.line(" bgp listen limit %d", max(frrListen, 4*s.paths))
	}
	for _, g := range s.groups {
		frrGroup(p, g, o)
	}
	frrFamily(p, s, true)
	frrFamily(p, s, false)
	p.line("exit")
}

// frrLists writes the prefix lists of a filter.
func frrLists(p *page, f *filter) {
	for _, l := range f.lists() {
		for i, r := range l.rules {
			p.line("%s prefix-list %s seq %d permit %s", ip(l.v4), l.name, 5*(i+1), geLe(r))
		}
		p.line("!")
	}
}

func frrRouteMap(p *page, f *filter) {
	seq := 10
	for _, l := range f.lists() {
		p.text(`
route-map %s_IN permit %d
 match %s address prefix-list %s
exit
`, f.name, seq, ip(l.v4), l.name)
		seq += 10
	}
	p.text(`
route-map %s_IN deny 100
exit
!
`, f.name)
}

// frrOut writes what goes out to the machines: nothing, or default routes alone.
func frrOut(p *page, s *side) {
	if s.tellsNothing() {
		p.text(`
route-map PLINTH_NONE deny 10
exit
!
`)
	}
	if s.learns() {
		p.text(`
ip prefix-list PLINTH_DEFAULT4 seq 5 permit 0.0.0.0/0
ipv6 prefix-list PLINTH_DEFAULT6 seq 5 permit ::/0
route-map PLINTH_DEFAULT permit 10
 match ip address prefix-list PLINTH_DEFAULT4
exit
route-map PLINTH_DEFAULT permit 20
 match ipv6 address prefix-list PLINTH_DEFAULT6
exit
route-map PLINTH_DEFAULT deny 100
exit
!
`)
	}
}

func frrBFD(p *page, profiles []inventory.BFDProfile) {
	if len(profiles) == 0 {
		return
	}
	p.line("bfd")
	for _, b := range profiles {
		p.text(`
 profile plinth-%[1]s
  detect-multiplier %[2]d
  receive-interval %[3]d
  transmit-interval %[3]d
 exit
`, b.Name, b.Multiplier, b.Interval/time.Millisecond)
	}
	p.text(`
exit
!
`)
}

// frrGroup writes a peer group and its members. The machines connect to the
// router, never the other way round: nobody listens there.
func frrGroup(p *page, g *group, o Options) {
	n := " neighbor " + g.name
	p.text(`
%[1]s peer-group
%[1]s remote-as %[2]d
%[1]s passive
`, n, uint32(g.terms.LocalASN))
	switch {
	case g.terms.TTLSecurity:
		p.line("%s ttl-security hops 1", n)
	case g.terms.Multihop > 0 && !g.terms.IBGP():
		p.line("%s ebgp-multihop %d", n, g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("%s update-source %s", n, g.terms.RouterAddr)
	}
	p.password(g, o, n+" password %s", "!"+n+" password <%s>")
	if b := g.terms.BFD.Name; b != "" {
		// Both, as FRR prints it, or frr-reload takes it away again.
		p.text(`
%[1]s bfd
%[1]s bfd profile plinth-%[2]s
`, n, b)
	}
	if g.terms.RestartTime > 0 {
		p.line("%s graceful-restart-helper", n)
	}
	if o.Dynamic {
		for _, r := range g.subnets {
			p.line(" bgp listen range %s peer-group %s", r, g.name)
		}
	}
	for _, m := range g.members {
		p.text(`
 neighbor %[1]s peer-group %[2]s
 neighbor %[1]s description %[3]s
`, m.addr, g.name, inventory.CutText(m.description(), 80))
	}
}

// frrFamily turns each group on or off in a family: FRR turns IPv4 on for every
// neighbour unless it is told not to.
func frrFamily(p *page, s *side, v4 bool) {
	if !v4 && !s.carries(v4) {
		return
	}
	p.text(`
 !
 address-family %s unicast
`, ipv(v4))
	for _, g := range s.groups {
		n := "neighbor " + g.name
		if !g.carries(v4) {
			if v4 {
				p.line("  no %s activate", n)
			}
			continue
		}
		p.text(`
  %[1]s activate
  %[1]s route-map %[2]s_IN in
  %[1]s route-map %[3]s out
  %[1]s maximum-prefix %[4]d restart 5
`, n, g.filter.name, outMap(g), g.limit(v4))
	}
	for _, a := range s.aggregatesOf(v4) {
		p.line("  aggregate-address %s%s", a.block, only(a, " summary-only"))
	}
	if s.carries(v4) && s.ebgp() {
		p.line("  maximum-paths %d", min(s.paths, frrPaths))
	}
	if s.carries(v4) && s.ibgp() {
		p.line("  maximum-paths ibgp %d", min(s.paths, frrPaths))
	}
	p.line(" exit-address-family")
}
