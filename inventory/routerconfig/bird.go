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
func writeBIRD(page *page, side *side, options Options) {
	if options.Standalone {
		birdRouter(page, side)
	} else if len(side.groups) > 0 {
		birdNeeds(side)
	}
	birdRacks(page, side)
	for _, f := range side.filters {
		birdFilter(page, f, true)
		birdFilter(page, f, false)
	}
	taken := map[string]bool{}
	for _, group := range side.groups {
		birdTemplate(page, side, group, options)
		if options.Dynamic {
			birdRanges(page, group, taken)
		}
		for _, m := range group.members {
			birdNeighbour(page, side, group, m, taken)
		}
		page.line("")
	}
}

// birdNeeds notes what the router's own configuration must have.
func birdNeeds(side *side) {
	side.note("For BIRD to include. The router's own configuration has protocol device, and protocol kernel with %q for each family.",
		fmt.Sprintf("merge paths on limit %d", min(side.paths, birdPaths)))
	if len(side.aggregates) > 0 {
		side.note("Its protocol kernel exports routes of source RTS_STATIC, too: that is what drops packets for addresses of a rack that no machine holds.")
	}
	if len(side.profiles()) > 0 {
		side.note("The machines use BFD: the router's own configuration has protocol bfd, too.")
	}
}

// birdRacks writes a route for each aggregate, and a function that tells what lies in
// them, to be left out of what others are told.
func birdRacks(page *page, side *side) {
	if len(side.aggregates) == 0 {
		return
	}
	side.note("Racks' blocks go out where your own export filters let in routes of source RTS_STATIC, and the machines' pod CIDRs stay behind where they refuse plinth_part4() and plinth_part6().")
	side.withoutMachines()
	for _, v4 := range []bool{true, false} {
		if len(side.aggregatesOf(v4)) > 0 {
			page.text(`
protocol static plinth_racks%s {
  %s;
`, digit(v4), ipv(v4))
			for _, a := range side.aggregatesOf(v4) {
				page.line("  route %s unreachable; # %s", a.block, a.rack)
			}
			page.line("}")
		}
		var parts []string
		for _, b := range side.summed(v4) {
			parts = append(parts, fmt.Sprintf("%s{%d,%d}", b, b.Bits()+1, b.Addr().BitLen()))
		}
		inPart := "false"
		if len(parts) > 0 {
			inPart = "net ~ [ " + strings.Join(parts, ", ") + " ]"
		}
		page.text(`
function plinth_part%s() {
  return %s;
}
`, digit(v4), inPart)
	}
	page.line("")
}

// birdKernel has the kernel take the aggregates, too.
func birdKernel(s *side, v4 bool) string {
	if len(s.aggregatesOf(v4)) == 0 {
		return ""
	}
	return fmt.Sprintf(" || proto = %q", "plinth_racks"+digit(v4))
}

// birdRouter writes what a router needs besides its neighbours.
func birdRouter(page *page, side *side) {
	page.text(`
log syslog all;
router id %s;
protocol device { }
protocol direct { ipv4; ipv6; }
`, routerID(side.router))
	for _, v4 := range []bool{true, false} {
		page.text(`
protocol kernel plinth_kernel%s {
  merge paths on limit %d;
`, digit(v4), min(side.paths, birdPaths))
		learned := "none"
		if side.learns() {
			page.line("  learn;")
			learned = "where net = " + defaultRoute(v4)
		}
		page.text(`
  %s {
    import %s;
    export where source = RTS_BGP%s;
  };
}
`, ipv(v4), learned, birdKernel(side, v4))
	}
	if len(side.profiles()) > 0 {
		page.line("protocol bfd { }")
	}
	page.line("")
}

// birdFilter writes what is let in of one family.
func birdFilter(page *page, filter *filter, v4 bool) {
	vips, pods := filter.vip6, filter.pod6
	if v4 {
		vips, pods = filter.vip4, filter.pod4
	}
	page.text(`
filter %s {
  if (65535, 0) ~ bgp_community then bgp_local_pref = 0; # GRACEFUL_SHUTDOWN, RFC 8326
`, birdFilterName(filter, v4))
	birdAccept(page, vips, "VIPs")
	birdAccept(page, pods, "pods")
	page.text(`
  reject;
}

`)
}

func birdFilterName(f *filter, v4 bool) string {
	return strings.ToLower(inventory.CutText(f.name, birdSymbol)) + "_in" + digit(v4)
}

// birdAccept lets in one set of prefixes.
func birdAccept(page *page, rules []rule, what string) {
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
		page.line("  if net ~ [ %s ] then accept; # %s", patterns[0], what)
		return
	}
	page.text(`
  if net ~ [ # %s
    %s
  ] then accept;
`, what, strings.Join(patterns, ",\n    "))
}

// birdTemplate writes what the sessions of a group have in common. The machines
// connect to the router, never the other way round: nobody listens there.
func birdTemplate(page *page, side *side, group *group, options Options) {
	hops := "direct"
	if group.terms.Multihop > 0 {
		hops = fmt.Sprintf("multihop %d", group.terms.Multihop)
	}
	// Of itself BIRD lets no machine in for a minute after any error, such as a
	// hold timer that expired while the machine was without power.
	page.text(`
template bgp %s {
  %s;
  passive on;
  error wait time 1, 10;
  %s;
`, birdTemplateName(group), birdLocal(side, group), hops)
	if group.terms.TTLSecurity {
		page.line("  ttl security on;")
	}
	page.password(group, options, "  password %q;", `  # password "<%s>";`)
	if b := group.terms.BFD; b.Name != "" {
		ms := b.Interval / time.Millisecond
		page.line("  bfd { min rx interval %d ms; min tx interval %d ms; multiplier %d; };", ms, ms, b.Multiplier)
	}
	if group.terms.RestartTime > 0 {
		page.line("  graceful restart aware;")
	}
	for _, v4 := range []bool{true, false} {
		if group.carries(v4) {
			birdFamily(page, group, v4)
		}
	}
	page.line("}")
}

func birdTemplateName(g *group) string { return strings.ToLower(inventory.CutText(g.name, birdSymbol)) }

func birdLocal(side *side, group *group) string {
	local := "local"
	if group.terms.Multihop > 0 {
		local += " " + group.terms.RouterAddr.String()
	}
	if group.terms.Port != 179 {
		local += fmt.Sprintf(" port %d", group.terms.Port)
	}
	return fmt.Sprintf("%s as %d", local, uint32(side.router.ASN))
}

func birdFamily(p *page, group *group, v4 bool) {
	export := either(group.learns(), "where net = "+defaultRoute(v4), "none")
	p.text(`
  %s {
    import filter %s;
    export %s;
    import limit %d action restart;
  };
`, ipv(v4), birdFilterName(group.filter, v4), export, group.limit(v4))
}

// birdNeighbour writes one session.
func birdNeighbour(p *page, s *side, group *group, member member, taken map[string]bool) {
	name := "plinth_" + inventory.CutText(member.id(), birdSymbol)
	if len(s.router.Addresses) > 1 {
		name += "_v" + digit(group.over4())
	}
	p.text(`
protocol bgp %s from %s {
  description %q;
  neighbor %s as %d;
}
`, free(name, taken), birdTemplateName(group), member.description(), member.addr, uint32(group.terms.LocalASN))
}

// birdRanges lets in every address of the group's subnets.
func birdRanges(p *page, group *group, taken map[string]bool) {
	for _, other := range group.subnets {
		name := free(birdTemplateName(group)+"_any", taken)
		p.text(`
protocol bgp %s from %s {
  neighbor range %s as %d;
  dynamic name %q;
}
`, name, birdTemplateName(group), other, uint32(group.terms.LocalASN), name+"_")
	}
}
