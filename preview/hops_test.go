package preview

import (
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
)

func TestARouterWeighsByLinkBandwidthUnlessItsOSDoesNot(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{service("web", "203.0.113.7", true, "w1", "w2", "w2", "w3")}}
	for os, want := range map[string]string{"": "w1 33%, w2 67%", "os: frr, ": "w1 33%, w2 67%", "os: bird, ": "w1, w2"} {
		inv := edited(t, "[203.0.113.0/25]", "[203.0.113.0/25], advertise: {weighted: true}", "{name: tor-r1, ", "{name: tor-r1, "+os)
		seen := Of(inv, c, Failures{})
		for what, p := range map[string]*Preview{"now": seen, "after a failure": seen.With(Failures{Machines: map[string]bool{"w3": true}})} {
			vip, _ := p.VIP(netip.MustParseAddr("203.0.113.7"))
			if got := hopsOf(vip)["tor-r1"].String(); got != want {
				t.Errorf("%q, %s: tor-r1 has the next hops %s, want %s", os, what, got, want)
			}
		}
	}
}

// TestARouterGoesByTheLongestPrefix: a machine with an endpoint of a Service with local traffic announces its VIP alone, and all announce the
// aggregate for another Service that shares it.
func TestARouterGoesByTheLongestPrefix(t *testing.T) {
	inv := edited(t, "[203.0.113.0/25]", "[203.0.113.0/25], advertise: {aggregate: {ipv4: 28}}")
	ending := service("local", "203.0.113.7", true, "w3")
	ending.Endpoints[lb.IPv4] = advertise.Spread{Ready: map[string]int{"w3": 1}, Ending: map[string]int{"w1": 1}}
	for what, local := range map[string]Service{"ready": service("local", "203.0.113.7", true, "w1", "w3"), "the worse way": ending} {
		c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{local, service("shared", "203.0.113.7", false, "w2")}}
		vip, _ := Of(inv, c, Failures{}).VIP(netip.MustParseAddr("203.0.113.7"))
		if got := hopsOf(vip); got["tor-r1"].String() != "w1" || got["tor-r2"].String() != "w3" {
			t.Errorf("%s: the next hops are %v", what, got)
		}
	}
}

func TestAnEditThatLeavesNextHopsAloneChangesNothing(t *testing.T) {
	c := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{service("web", "203.0.113.7", false, "w1")}}
	one := []string{ // router for all racks, so that machines of both are its next hops
		"  racks:\n", "  routers: [{name: spine, address: 10.0.0.1, asn: 65100}]\n  racks:\n",
		"    routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]\n", "", "    routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]\n", "",
	}
	was := edited(t, one...)
	for _, tt := range []struct{ what, advertise, hops string }{
		{"an advertisement for other Services comes first", "[{serviceSelector: {matchLabels: {tier: gold}}}, {}]", ""},
		{"an aggregate of all", "{aggregate: {ipv4: 28}}", ""},
		{"an aggregate of one rack", "[{racks: [r1], aggregate: {ipv4: 28}}, {racks: [r2]}]", "w3"},
	} {
		is := edited(t, append(slices.Clone(one), "[203.0.113.0/25]", "[203.0.113.0/25], advertise: "+tt.advertise)...)
		outcome, hops := Compare(Of(was, c, Failures{}), Of(is, c, Failures{})), ""
		for _, change := range outcome.Hops() {
			hops += change.Is.String()
		}
		if outcome.Empty() != (tt.hops == "") || hops != tt.hops {
			t.Errorf("%s: %d VIPs change, and there are next hops %q", tt.what, len(outcome.VIPs), hops)
		}
	}
}
