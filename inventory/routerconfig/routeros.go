package routerconfig

import (
	"fmt"
	"strings"

	"plinth.dev/plinth/inventory"
)

// routerosMarks find what an earlier text made, in the order in which it can go:
// connections before the filters and the instance that they name.
const routerosMarks = `
/routing/bgp/connection remove [find where name~"^plinth-"]
/routing/bgp/instance remove [find where name="plinth"]
/routing/filter/rule remove [find where chain~"^plinth-"]
/routing/bfd/configuration remove [find where comment~"^plinth "]
/ip/route remove [find where comment~"^plinth "]
/ipv6/route remove [find where comment~"^plinth "]
/ip/firewall/address-list remove [find where list="plinth-racks"]
/ipv6/firewall/address-list remove [find where list="plinth-racks"]
`

// writeRouterOS writes commands for RouterOS 7.20 and later. They take away what an
// earlier text made and add everything anew: adding alone stops at the first name that is
// there already, and a rule that is added later would stand behind the one that rejects.
func writeRouterOS(page *page, side *side, options Options) {
	page.text(routerosMarks)
	if len(side.groups) == 0 {
		return
	}
	side.note("Loading it again is safe: it first removes what bears its names (plinth, plinth-...), so its sessions go down and come back within seconds.")
	side.note("Before RouterOS 7.20 there is no instance: put as and router-id on a template.")
	side.note("Whether several equal paths are used depends on the version of RouterOS: try it.")
	routerosInstance(page, side)
	for _, f := range side.filters {
		routerosFilter(page, f)
	}
	routerosOut(page, side)
	for _, profile := range side.profiles() {
		var addrs []string
		for _, g := range side.groups {
			for _, m := range g.members {
				if g.terms.BFD == profile {
					addrs = append(addrs, m.addr.String())
				}
			}
		}
		page.line("/routing/bfd/configuration add addresses=%s min-rx=%s min-tx=%s multiplier=%d comment=\"plinth %s\"",
			strings.Join(addrs, ","), profile.Interval, profile.Interval, profile.Multiplier, profile.Name)
	}
	routerosRacks(page, side)
	taken := map[string]bool{}
	for _, g := range side.groups {
		for _, m := range g.members {
			routerosConnection(page, g, m, options, free("plinth-"+m.machine, taken))
		}
	}
}

// routerosInstance leaves the router ID to the router where the inventory has no IPv4
// address for it: an invented one would take the place of its own.
func routerosInstance(page *page, side *side) {
	id := inventory.FirstOf(side.router.Addresses, true)
	if !id.IsValid() {
		side.note("The inventory has no IPv4 address of the router, so RouterOS takes its router ID from its own addresses. If it has no IPv4 address at all, add router-id to the instance.")
		page.line("/routing/bgp/instance add name=plinth as=%d", uint32(side.router.ASN))
		return
	}
	page.line("/routing/bgp/instance add name=plinth as=%d router-id=%s", uint32(side.router.ASN), id)
}

// routerosFilter writes a chain. A rule does not decide on routes that do
// not match it, so the last one rejects.
func routerosFilter(page *page, f *filter) {
	add := "/routing/filter/rule add chain=" + routerosChain(f)
	page.line(`%s rule="if (bgp-communities includes graceful-shutdown) { set bgp-local-pref 0 }"`, add)
	for _, l := range f.lists() {
		for _, r := range l.rules {
			page.line(`%s rule="if (dst in %s && dst-len == %d) { accept }"`, add, r.block, r.length)
		}
	}
	page.line(`%s rule="reject"`, add)
}

// routerosRacks writes a route for each aggregate, a list to tell others from, and a
// chain that keeps back what lies in them: RouterOS has no aggregates of its own.
func routerosRacks(page *page, side *side) {
	if len(side.aggregates) == 0 {
		return
	}
	side.note("Racks' blocks go out where your own connections have output.network=plinth-racks; a jump to plinth-parts, first in their output chain, keeps back what lies in them.")
	side.withoutMachines()
	for _, aggregate := range side.aggregates {
		page.text(`
/%[1]s/route add dst-address=%[2]s blackhole comment="plinth %[3]s"
/%[1]s/firewall/address-list add list=plinth-racks address=%[2]s comment="plinth %[3]s"
`, ip(aggregate.block.Addr().Is4()), aggregate.block, aggregate.rack)
		if aggregate.alone {
			page.line(`/routing/filter/rule add chain=plinth-parts rule="if (dst in %s && dst-len > %d) { reject }"`, aggregate.block, aggregate.block.Bits())
		}
	}
	page.line(`/routing/filter/rule add chain=plinth-parts rule="return"`)
}

func routerosChain(f *filter) string {
	return strings.ToLower(strings.ReplaceAll(f.name, "_", "-")) + "-in"
}

func routerosOut(p *page, s *side) {
	if s.tellsNothing() {
		p.line(`/routing/filter/rule add chain=plinth-none rule="reject"`)
	}
	if s.learns() {
		p.text(`
/routing/filter/rule add chain=plinth-default rule="if (dst == 0.0.0.0/0 || dst == ::/0) { accept }"
/routing/filter/rule add chain=plinth-default rule="reject"
`)
	}
}

func routerosConnection(page *page, group *group, member member, options Options, name string) {
	words := []string{
		"name=" + name, "instance=plinth", "listen=yes", "connect=no",
		fmt.Sprintf("remote.address=%s remote.as=%d", member.addr, uint32(group.terms.LocalASN)),
		fmt.Sprintf("local.address=%s local.role=%s", group.terms.RouterAddr, either(group.terms.IBGP(), "ibgp", "ebgp")),
	}
	if group.terms.Port != 179 {
		words = append(words, fmt.Sprintf("local.port=%d", group.terms.Port))
	}
	switch {
	case group.terms.TTLSecurity:
		words = append(words, "local.ttl=255", "remote.ttl=255")
	case group.terms.Multihop > 0:
		words = append(words, "multihop=yes", fmt.Sprintf("local.ttl=%d", group.terms.Multihop))
	}
	var families []string
	for _, v4 := range []bool{true, false} {
		if group.carries(v4) {
			families = append(families, ip(v4))
			words = append(words, fmt.Sprintf("input.limit-process-routes-ipv%s=%d", digit(v4), powerOfTen(group.limit(v4))))
		}
	}
	words = append(words, "afi="+strings.Join(families, ","), "input.filter="+routerosChain(group.filter),
		"output.filter-chain="+strings.ToLower(strings.ReplaceAll(outMap(group), "_", "-")))
	if group.terms.BFD.Name != "" {
		words = append(words, "use-bfd=yes")
	}
	if word, ok := options.password(group); ok {
		words = append(words, fmt.Sprintf("tcp-md5-key=%q", word))
	} else if group.needsPassword(options) {
		page.remark("tcp-md5-key=\"<key %s of Secret %s>\" belongs to the next line", group.terms.Password.Key, group.terms.Password.Secret)
	}
	page.line("/routing/bgp/connection add %s comment=%q", strings.Join(words, " "), member.description())
}

// powerOfTen rounds up to what RouterOS takes as a limit.
func powerOfTen(n int) int {
	for p := 10; ; p *= 10 {
		if p >= n {
			return p
		}
	}
}
