package routerconfig

import (
	"fmt"
	"strings"
	"time"

	"plinth.dev/plinth/inventory"
)

const (
	birdPaths  = 255 // what BIRD's merge paths takes at most
	birdSymbol = 48  // of the 64 characters of a name, to leave some for endings
)

// writeBIRD writes a file for BIRD to include, or a whole bird.conf. BIRD has one
// device, kernel and BFD protocol for all: they are the router's own, unless the
// file is to be whole.
func writeBIRD(p *page, s *side, o Options) {
	if o.Standalone {
		birdRouter(p, s)
	} else if len(s.groups) > 0 {
		birdNeeds(s)
	}
	birdRacks(p, s)
	for _, f := range s.filters {
		birdFilter(p, f, true)
		birdFilter(p, f, false)
	}
	taken := map[string]bool{}
	for _, g := range s.groups {
		birdTemplate(p, s, g, o)
		if o.Dynamic {
			birdRanges(p, g, taken)
		}
		for _, m := range g.members {
			birdNeighbour(p, s, g, m, taken)
		}
		p.line("")
	}
}

// birdNeeds notes what the router's own configuration must have.
func birdNeeds(s *side) {
	s.note("For BIRD to include. The router's own configuration has protocol device, and protocol kernel with %q for each family.",
		fmt.Sprintf("merge paths on limit %d", min(s.paths, birdPaths)))
	if len(s.aggregates) > 0 {
		s.note("Its protocol kernel exports routes of source RTS_STATIC, too: that is what drops packets for addresses of a rack that no machine holds.")
	}
	if len(s.profiles()) > 0 {
		s.note("The machines use BFD: the router's own configuration has protocol bfd, too.")
	}
}

// birdRacks writes a route for each aggregate, and a function that tells what lies in
// them, to be left out of what others are told.
func birdRacks(p *page, s *side) {
	if len(s.aggregates) == 0 {
		return
	}
	s.note("Racks' blocks go out where your own export filters let in routes of source RTS_STATIC, and the machines' pod CIDRs stay behind where they refuse plinth_part4() and plinth_part6().")
	s.withoutMachines()
	for _, v4 := range []bool{true, false} {
		if len(s.aggregatesOf(v4)) > 0 {
			p.text(`
protocol static plinth_racks%s {
  %s;
`, digit(v4), ipv(v4))
			for _, a := range s.aggregatesOf(v4) {
				p.line("  route %s unreachable; # %s", a.block, a.rack)
			}
			p.line("}")
		}
		var parts []string
		for _, b := range s.summed(v4) {
			parts = append(parts, fmt.Sprintf("%s{%d,%d}", b, b.Bits()+1, b.Addr().BitLen()))
		}
		inPart := "false"
		if len(parts) > 0 {
			inPart = "net ~ [ " + strings.Join(parts, ", ") + " ]"
		}
		p.text(`
function plinth_part%s() {
  return %s;
}
`, digit(v4), inPart)
	}
	p.line("")
}

// birdKernel has the kernel take the aggregates, too.
func birdKernel(s *side, v4 bool) string {
	if len(s.aggregatesOf(v4)) == 0 {
		return ""
	}
	return fmt.Sprintf(" || proto = %q", "plinth_racks"+digit(v4))
}

// birdRouter writes what a router needs besides its neighbours.
func birdRouter(p *page, s *side) {
	p.text(`
log syslog all;
router id %s;
protocol device { }
protocol direct { ipv4; ipv6; }
`, routerID(s.router))
	for _, v4 := range []bool{true, false} {
		p.text(`
protocol kernel plinth_kernel%s {
  merge paths on limit %d;
`, digit(v4), min(s.paths, birdPaths))
		learned := "none"
		if s.learns() {
			p.line("  learn;")
			learned = "where net = " + defaultRoute(v4)
		}
		p.text(`
  %s {
    import %s;
    export where source = RTS_BGP%s;
  };
}
`, ipv(v4), learned, birdKernel(s, v4))
	}
	if len(s.profiles()) > 0 {
		p.line("protocol bfd { }")
	}
	p.line("")
}

// birdFilter writes what is let in of one family.
func birdFilter(p *page, f *filter, v4 bool) {
	vips, pods := f.vip6, f.pod6
	if v4 {
		vips, pods = f.vip4, f.pod4
	}
	p.text(`
filter %s {
  if (65535, 0) ~ bgp_community then bgp_local_pref = 0; # GRACEFUL_SHUTDOWN, RFC 8326
`, birdFilterName(f, v4))
	birdAccept(p, vips, "VIPs")
	birdAccept(p, pods, "pods")
	p.text(`
  reject;
}

`)
}

func birdFilterName(f *filter, v4 bool) string {
	return strings.ToLower(inventory.CutText(f.name, birdSymbol)) + "_in" + digit(v4)
}

// birdAccept lets in one set of prefixes.
func birdAccept(p *page, rules []rule, what string) {
	if len(rules) == 0 {
		return
	}
	patterns := make([]string, len(rules))
	for i, r := range rules {
		patterns[i] = r.block.String()
		if !r.exact() {
			patterns[i] += fmt.Sprintf("{%d,%d}", r.length, r.length)
		}
	}
	if len(rules) == 1 {
		p.line("  if net ~ [ %s ] then accept; # %s", patterns[0], what)
		return
	}
	p.text(`
  if net ~ [ # %s
    %s
  ] then accept;
`, what, strings.Join(patterns, ",\n    "))
}

// birdTemplate writes what the sessions of a group have in common. The machines
// connect to the router, never the other way round: nobody listens there.
func birdTemplate(p *page, s *side, g *group, o Options) {
	hops := "direct"
	if g.terms.Multihop > 0 {
		hops = fmt.Sprintf("multihop %d", g.terms.Multihop)
	}
	// Of itself BIRD lets no machine in for a minute after any error, such as a
	// hold timer that expired while the machine was without power.
	p.text(`
template bgp %s {
  %s;
  passive on;
  error wait time 1, 10;
  %s;
`, birdTemplateName(g), birdLocal(s, g), hops)
	if g.terms.TTLSecurity {
		p.line("  ttl security on;")
	}
	p.password(g, o, "  password %q;", `  # password "<%s>";`)
	if b := g.terms.BFD; b.Name != "" {
		ms := b.Interval / time.Millisecond
		p.line("  bfd { min rx interval %d ms; min tx interval %d ms; multiplier %d; };", ms, ms, b.Multiplier)
	}
	if g.terms.RestartTime > 0 {
		p.line("  graceful restart aware;")
	}
	for _, v4 := range []bool{true, false} {
		if g.carries(v4) {
			birdFamily(p, g, v4)
		}
	}
	p.line("}")
}

func birdTemplateName(g *group) string { return strings.ToLower(inventory.CutText(g.name, birdSymbol)) }

func birdLocal(s *side, g *group) string {
	local := "local"
	if g.terms.Multihop > 0 {
		local += " " + g.terms.RouterAddr.String()
	}
	if g.terms.Port != 179 {
		local += fmt.Sprintf(" port %d", g.terms.Port)
	}
	return fmt.Sprintf("%s as %d", local, uint32(s.router.ASN))
}

func birdFamily(p *page, g *group, v4 bool) {
	export := "none"
	if g.learns() {
		export = "where net = " + defaultRoute(v4)
	}
	p.text(`
  %s {
    import filter %s;
    export %s;
    import limit %d action restart;
  };
`, ipv(v4), birdFilterName(g.filter, v4), export, g.limit(v4))
}

// birdNeighbour writes one session.
func birdNeighbour(p *page, s *side, g *group, m member, taken map[string]bool) {
	name := "plinth_" + inventory.CutText(m.id(), birdSymbol)
	if len(s.router.Addresses) > 1 {
		name += "_v" + digit(g.over4())
	}
	p.text(`
protocol bgp %s from %s {
  description %q;
  neighbor %s as %d;
}
`, free(name, taken), birdTemplateName(g), m.description(), m.addr, uint32(g.terms.LocalASN))
}

// birdRanges lets in every address of the group's subnets.
func birdRanges(p *page, g *group, taken map[string]bool) {
	for _, r := range g.subnets {
		name := free(birdTemplateName(g)+"_any", taken)
		p.text(`
protocol bgp %s from %s {
  neighbor range %s as %d;
  dynamic name %q;
}
`, name, birdTemplateName(g), r, uint32(g.terms.LocalASN), name+"_")
	}
}
