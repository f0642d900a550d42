package routerconfig

import (
	"time"

	"plinth.dev/plinth/inventory"
)

// frrPaths is the number of equal paths that FRR's packages are built for.
const frrPaths = 256

// frrListen is the number of neighbours of ranges that FRR takes at least.
const frrListen = 100

// writeFRR writes commands for vtysh -f, or a part of frr.conf. Sessions carry
// policies in both directions, so that bgp ebgp-requires-policy may stay on.
func writeFRR(page *page, side *side, options Options) {
	if options.Standalone {
		page.text(`
hostname %s
ip forwarding
ipv6 forwarding
!
`, side.router.Name)
	}
	for _, f := range side.filters {
		frrLists(page, f)
		frrRouteMap(page, f)
	}
	frrOut(page, side)
	frrBFD(page, side.profiles())
	if len(side.groups) == 0 {
		return
	}
	if port := side.router.Port; port != 179 {
		side.note("Machines connect to port %d: start bgpd with -p %d.", port, port)
	}
	page.line("router bgp %d", uint32(side.router.ASN))
	if id := inventory.FirstOf(side.router.Addresses, true); options.Standalone && id.IsValid() {
		page.line(" bgp router-id %s", id)
	}
	if side.ebgp() {
		page.line(" bgp bestpath as-path multipath-relax")
	}
	if options.Dynamic {
		page.line(" bgp listen limit %d", max(frrListen, 4*side.paths))
	}
	for _, g := range side.groups {
		frrGroup(page, g, options)
	}
	frrFamily(page, side, true)
	frrFamily(page, side, false)
	page.line("exit")
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

func frrRouteMap(page *page, filter *filter) {
	seq := 10
	for _, l := range filter.lists() {
		page.text(`
route-map %s_IN permit %d
 match %s address prefix-list %s
exit
`, filter.name, seq, ip(l.v4), l.name)
		seq += 10
	}
	page.text(`
route-map %s_IN deny 100
exit
!
`, filter.name)
}

// frrOut writes what goes out to the machines: nothing, or default routes alone.
func frrOut(page *page, side *side) {
	if side.tellsNothing() {
		page.text(`
route-map PLINTH_NONE deny 10
exit
!
`)
	}
	if side.learns() {
		page.text(`
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

func frrBFD(page *page, profiles []inventory.BFDProfile) {
	if len(profiles) == 0 {
		return
	}
	page.line("bfd")
	for _, profile := range profiles {
		page.text(`
 profile plinth-%[1]s
  detect-multiplier %[2]d
  receive-interval %[3]d
  transmit-interval %[3]d
 exit
`, profile.Name, profile.Multiplier, profile.Interval/time.Millisecond)
	}
	page.text(`
exit
!
`)
}

// frrGroup writes a peer group and its members. The machines connect to the
// router, never the other way round: nobody listens there.
func frrGroup(page *page, group *group, options Options) {
	name := " neighbor " + group.name
	page.text(`
%[1]s peer-group
%[1]s remote-as %[2]d
%[1]s passive
`, name, uint32(group.terms.LocalASN))
	switch {
	case group.terms.TTLSecurity:
		page.line("%s ttl-security hops 1", name)
	case group.terms.Multihop > 0 && !group.terms.IBGP():
		page.line("%s ebgp-multihop %d", name, group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		page.line("%s update-source %s", name, group.terms.RouterAddr)
	}
	page.password(group, options, name+" password %s", "!"+name+" password <%s>")
	if b := group.terms.BFD.Name; b != "" {
		// Both, as FRR prints it, or frr-reload takes it away again.
		page.text(`
%[1]s bfd
%[1]s bfd profile plinth-%[2]s
`, name, b)
	}
	if group.terms.RestartTime > 0 {
		page.line("%s graceful-restart-helper", name)
	}
	if options.Dynamic {
		for _, r := range group.subnets {
			page.line(" bgp listen range %s peer-group %s", r, group.name)
		}
	}
	for _, m := range group.members {
		page.text(`
 neighbor %[1]s peer-group %[2]s
 neighbor %[1]s description %[3]s
`, m.addr, group.name, inventory.CutText(m.description(), 80))
	}
}

// frrFamily turns each group on or off in a family: FRR turns IPv4 on for every
// neighbour unless it is told not to.
func frrFamily(page *page, side *side, v4 bool) {
	if !v4 && !side.carries(v4) {
		return
	}
	page.text(`
 !
 address-family %s unicast
`, ipv(v4))
	for _, group := range side.groups {
		name := "neighbor " + group.name
		if !group.carries(v4) {
			if v4 {
				page.line("  no %s activate", name)
			}
			continue
		}
		page.text(`
  %[1]s activate
  %[1]s route-map %[2]s_IN in
  %[1]s route-map %[3]s out
  %[1]s maximum-prefix %[4]d restart 5
`, name, group.filter.name, outMap(group), group.limit(v4))
	}
	for _, a := range side.aggregatesOf(v4) {
		page.line("  aggregate-address %s%s", a.block, only(a, " summary-only"))
	}
	if side.carries(v4) && side.ebgp() {
		page.line("  maximum-paths %d", min(side.paths, frrPaths))
	}
	if side.carries(v4) && side.ibgp() {
		page.line("  maximum-paths ibgp %d", min(side.paths, frrPaths))
	}
	page.line(" exit-address-family")
}
