package routerconfig

import (
	"fmt"
	"strings"

	"plinth.dev/plinth/inventory"
)

// openbgpdName is the length that a group's name or a description may have.
const openbgpdName = 31

// writeOpenBGPD writes a part of bgpd.conf. Its filter rules name the groups, so
// that other neighbours are left alone; the last rule that matches decides, so
// they must come after those of the router's own that match all neighbours.
func writeOpenBGPD(page *page, side *side, options Options) {
	page.line("AS %d", uint32(side.router.ASN))
	if len(side.groups) == 0 {
		return
	}
	side.note("OpenBGPD puts one path of several into the kernel: traffic of a VIP goes to one machine at a time.")
	side.note("Include it after the router's own filter rules: the last rule that matches decides.")
	if options.Standalone {
		page.line("router-id %s", routerID(side.router))
		if side.router.Port != 179 {
			for _, a := range side.router.Addresses {
				page.line("listen on %s port %d", a, side.router.Port)
			}
		}
	}
	page.line("")
	for _, f := range side.filters {
		openbgpdSets(page, f)
	}
	for _, g := range side.groups {
		openbgpdGroup(page, g, options)
	}
	for _, g := range side.groups {
		openbgpdRules(page, g)
	}
	openbgpdRacks(page, side)
}

// openbgpdRacks writes the networks that others are told, and keeps back their
// parts from all neighbours. OpenBGPD drops nothing that it has no route for.
func openbgpdRacks(page *page, side *side) {
	if len(side.aggregates) == 0 {
		return
	}
	side.note("Racks' blocks go out where a rule after this text lets them: allow to a neighbour prefix-set PLINTH_RACKS.")
	side.note("OpenBGPD puts no route for them into the kernel. Without one, a packet for a block that no machine holds may go round in a circle: give each a blackhole route at every start of the router (ip route add blackhole, or route add with -blackhole).")
	side.withoutMachines()
	var blocks, parts []string
	for _, a := range side.aggregates {
		blocks = append(blocks, a.block.String())
		if a.alone {
			parts = append(parts, fmt.Sprintf("%s prefixlen > %d", a.block, a.block.Bits()))
		}
	}
	page.text(`
prefix-set PLINTH_RACKS {
	%s
}
network prefix-set PLINTH_RACKS
`, strings.Join(blocks, ",\n\t"))
	if len(parts) > 0 {
		page.line("deny to any prefix { %s }", strings.Join(parts, ", "))
	}
}

func openbgpdSets(page *page, f *filter) {
	for _, list := range f.lists() {
		patterns := make([]string, len(list.rules))
		for i, r := range list.rules {
			patterns[i] = r.block.String()
			if !r.exact() {
				patterns[i] += fmt.Sprintf(" prefixlen = %d", r.length)
			}
		}
		page.text(`
prefix-set %s {
	%s
}
`, inventory.CutText(list.name, openbgpdName), strings.Join(patterns, ",\n\t"))
	}
	page.line("")
}

func openbgpdGroup(page *page, group *group, options Options) {
	page.text(`
group %q {
	remote-as %d
	passive
`, inventory.CutText(group.name, openbgpdName), uint32(group.terms.LocalASN))
	switch {
	case group.terms.TTLSecurity:
		page.line("\tttl-security yes")
	case group.terms.Multihop > 0:
		page.line("\tmultihop %d", group.terms.Multihop)
	}
	if group.terms.Multihop > 0 {
		page.line("\tlocal-address %s", group.terms.RouterAddr)
	}
	page.password(group, options, "\ttcp md5sig password %q", "\t# tcp md5sig password \"<%s>\"")
	for _, v4 := range []bool{true, false} {
		page.line("\tannounce IPv%s %s", digit(v4), either(group.carries(v4), "unicast", "none"))
	}
	if group.terms.RestartTime > 0 {
		page.line("\tannounce restart yes")
	}
	page.line("\tmax-prefix %d restart 5", bothLimits(group))
	for _, m := range group.members {
		page.line("\tneighbor %s { descr %q }", m.addr, inventory.CutText(m.description(), openbgpdName))
	}
	page.text(`
}

`)
}

func openbgpdRules(page *page, group *group) {
	name := inventory.CutText(group.name, openbgpdName)
	page.text(`
deny from group %[1]q
deny to group %[1]q
`, name)
	for _, l := range group.filter.lists() {
		page.line("allow from group %q prefix-set %s", name, inventory.CutText(l.name, openbgpdName))
	}
	page.line("match from group %q community GRACEFUL_SHUTDOWN set { localpref 0 }", name)
	if group.learns() {
		page.text(`
allow to group %[1]q prefix 0.0.0.0/0
allow to group %[1]q prefix ::/0
`, name)
	}
	page.line("")
}
