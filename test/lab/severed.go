package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/test/lab/netns"
)

// Way is a direction between two hosts of a subnet in which every frame is lost.
type Way struct{ From, To string }

const severedTable = "bridge plinth_lab_severed"

// SetSevered has frames lost in exactly these ways, in the switches of the racks; none: every
// frame arrives. Nobody is told: all links stay up.
func (l *Lab) SetSevered(ctx context.Context, ways ...Way) error {
	var pairs []string
	for _, w := range ways {
		from, to := l.ports(w.From), l.ports(w.To)
		if len(from) == 0 || len(to) == 0 {
			return fmt.Errorf("no way from %s to %s: want hosts of a rack", w.From, w.To)
		}
		for _, f := range from {
			for _, t := range to {
				pairs = append(pairs, fmt.Sprintf("%q . %q", f, t))
			}
		}
	}
	rules := "table " + severedTable + "\ndelete table " + severedTable + "\n"
	if len(pairs) > 0 {
		slices.Sort(pairs)
		rules += fmt.Sprintf(`table %s {
	set lost { type ifname . ifname; elements = { %s } }
	chain forward { type filter hook forward priority 0; iifname . oifname @lost drop; }
}`, severedTable, strings.Join(slices.Compact(pairs), ", "))
	}
	_, err := netns.Output(ctx, l.Namespace(switchHost), "nft", rules)
	return err
}

const inspectedTable = "bridge plinth_lab_inspected"

// SetInspected has the switches of the racks drop what a host says of some addresses in ARP and neighbour discovery, as
// one does that inspects both and knows these addresses as nobody's; none: nothing is dropped.
func (l *Lab) SetInspected(ctx context.Context, host string, addrs ...netip.Addr) error {
	rules := "table " + inspectedTable + "\ndelete table " + inspectedTable + "\n"
	if len(addrs) > 0 {
		rules += "table " + inspectedTable + " {\n chain forward { type filter hook forward priority 0;\n"
		for _, port := range l.ports(host) {
			for _, a := range addrs {
				says := "arp saddr ip " + a.String()
				if a.Is6() { // the target of an advertisement is 64 bits from its begin (RFC 4861, section 4.4)
					says = fmt.Sprintf("icmpv6 type nd-neighbor-advert @th,64,128 0x%x", a.AsSlice())
				}
				rules += fmt.Sprintf("  iifname %q %s drop\n", port, says)
			}
		}
		rules += " }\n}"
	}
	_, err := netns.Output(ctx, l.Namespace(switchHost), "nft", rules)
	return err
}

// Apart are the ways between hosts of different groups, in both directions.
func Apart(groups ...[]string) []Way {
	var ways []Way
	for i, group := range groups {
		for _, others := range groups[i+1:] {
			for _, a := range group {
				for _, b := range others {
					ways = append(ways, Way{a, b}, Way{b, a})
				}
			}
		}
	}
	return ways
}

// Others are the hosts of a rack, its routers among them, that are none of these, in order.
func (l *Lab) Others(rack string, hosts ...string) []string {
	var others []string
	for _, r := range l.Topology.Racks {
		if r.Name != rack {
			continue
		}
		for _, m := range r.Machines {
			others = append(others, m.Name)
		}
		others = slices.Concat(others, r.Hosts, r.Routers)
	}
	return slices.DeleteFunc(others, func(h string) bool { return slices.Contains(hosts, h) })
}

// ports are those of a host at the bridges of racks, and of a link besides.
func (l *Lab) ports(host string) []string {
	var ports []string
	for i, r := range l.Topology.Racks {
		switch {
		case slices.Contains(r.Routers, host):
			ports = append(ports, routerPort(host, i))
		case slices.Contains(r.Hosts, host), slices.ContainsFunc(r.Machines, func(m Machine) bool { return m.Name == host }):
			ports = append(ports, host)
		}
	}
	if port, besides := l.link[host]; besides {
		ports = append(ports, port)
	}
	return ports
}

// Unplug takes a host's cables out of the switches of its racks: it has no carrier there.
func (l *Lab) Unplug(host string) error { return l.setPorts(host, "down") }

// PlugIn undoes Unplug.
func (l *Lab) PlugIn(host string) error { return l.setPorts(host, "up") }

func (l *Lab) setPorts(host, state string) error {
	ports := l.ports(host)
	if len(ports) == 0 {
		return fmt.Errorf("%s is on no rack's subnet", host)
	}
	for i, p := range ports {
		ports[i] = "link set " + p + " " + state
	}
	return netns.IP(l.Namespace(switchHost), ports...)
}
