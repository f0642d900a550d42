package preview

import (
	"net/netip"
	"testing"
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
