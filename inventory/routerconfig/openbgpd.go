package routerconfig

import (
	"fmt"
	"strings"

	"plinth.dev/plinth/inventory"
)

// openbgpdName is how long a group's name or a description may be.
const openbgpdName = 31

// writeOpenBGPD writes a part of bgpd.conf. Its filter rules name the groups, so
// that other neighbours are left alone; the last rule that matches decides, so
// they must come after those of the router's own that match all neighbours.
func writeOpenBGPD(p *page, s *side, o Options) {
	p.line("AS %d", uint32(s.router.ASN))
	if len(s.groups) == 0 {
		return
	}
	s.note("OpenBGPD puts one path of several into the kernel: traffic of a VIP goes to one machine at a time.")
	s.note("Include it after the router's own filter rules: the last rule that matches decides.")
	if o.Standalone {
		p.line("router-id %s", routerID(s.router))
		if s.router.Port != 179 {
			for _, a := range s.router.Addresses {
				p.line("listen on %s port %d", a, s.router.Port)
			}
		}
	}
	p.line("")
	for _, f := range s.filters {
		openbgpdSets(p, f)
	}
	for _, g := range s.groups {
		openbgpdGroup(p, g, o)
	}
	for _, g := range s.groups {
		openbgpdRules(p, g)
	}
	openbgpdRacks(p, s)
}

// openbgpdRacks writes the networks that others are told, and keeps back their
// parts from all neighbours. OpenBGPD drops nothing that it has no route for.
func openbgpdRacks(p *page, s *side) {
	if len(s.aggregates) == 0 {
		return
	}
	s.note("Racks' blocks go out where a rule after this text lets them: allow to a neighbour prefix-set PLINTH_RACKS.")
	s.note("OpenBGPD puts no route for them into the kernel. Without one, a packet for a block that no machine holds may go round in a circle: give each a blackhole route at every start of the router (ip route add blackhole, or route add with -blackhole).")
	s.withoutMachines()
	var blocks, parts []string
	for _, a := range s.aggregates {
		blocks = append(blocks, a.block.String())
		if a.alone {
			parts = append(parts, fmt.Sprintf("%s prefixlen > %d", a.block, a.block.Bits()))
		}
	}
	p.text(`
prefix-set PLINTH_RACKS {
	%s
}
network prefix-set PLINTH_RACKS
`, strings.Join(blocks, ",\n\t"))
	if len(parts) > 0 {
		p.line("deny to any prefix { %s }", strings.Join(parts, ", "))
	}
}

func openbgpdSets(p *page, f *filter) {
	for _, l := range f.lists() {
		patterns := make([]string, len(l.rules))
		for i, r := range l.rules {
			patterns[i] = r.block.String()
			if !r.exact() {
				patterns[i] += fmt.Sprintf(" prefixlen = %d", r.length)
			}
		}
		p.text(`
prefix-set %s {
	%s
}
`, inventory.CutText(l.name, openbgpdName), strings.Join(patterns, ",\n\t"))
	}
	p.line("")
}

func openbgpdGroup(p *page, g *group, o Options) {
	p.text(`
group %q {
	remote-as %d
	passive
`, inventory.CutText(g.name, openbgpdName), uint32(g.terms.LocalASN))
	switch {
	case g.terms.TTLSecurity:
		p.line("\tttl-security yes")
	case g.terms.Multihop > 0:
		p.line("\tmultihop %d", g.terms.Multihop)
	}
	if g.terms.Multihop > 0 {
		p.line("\tlocal-address %s", g.terms.RouterAddr)
	}
	p.password(g, o, "\ttcp md5sig password %q", "\t# tcp md5sig password \"<%s>\"")
	for _, v4 := range []bool{true, false} {
		p.line("\tannounce IPv%s %s", digit(v4), map[bool]string{true: "unicast", false: "none"}[g.carries(v4)])
	}
	if g.terms.RestartTime > 0 {
		p.line("\tannounce restart yes")
	}
	p.line("\tmax-prefix %d restart 5", bothLimits(g))
	for _, m := range g.members {
		p.line("\tneighbor %s { descr %q }", m.addr, inventory.CutText(m.description(), openbgpdName))
	}
	p.text(`
}

`)
}

func openbgpdRules(p *page, g *group) {
	name := inventory.CutText(g.name, openbgpdName)
	p.text(`
deny from group %[1]q
deny to group %[1]q
`, name)
	for _, l := range g.filter.lists() {
		p.line("allow from group %q prefix-set %s", name, inventory.CutText(l.name, openbgpdName))
	}
	p.line("match from group %q community GRACEFUL_SHUTDOWN set { localpref 0 }", name)
	if g.learns() {
		p.text(`
allow to group %[1]q prefix 0.0.0.0/0
allow to group %[1]q prefix ::/0
`, name)
	}
	p.line("")
}
