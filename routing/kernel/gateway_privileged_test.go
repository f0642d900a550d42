//go:build privileged

package kernel

import (
	"fmt"
	"net/netip"
	"testing"
)

// A router at home says who it is by router advertisements: by its link-local address.
func TestTheGatewaysOfALinkAreThoseOfItsSubnetAndLinkLocalOnesOfItsInterface(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	for _, args := range []string{
		"link set side0 up", "link set side1 up", "-6 addr add fd09::11/64 dev side0 nodad",
		"route add default via 10.1.0.1",
	} {
		ip(t, args)
	}
	self4, self6, other := netip.MustParseAddr("10.1.0.11"), netip.MustParseAddr("fd01::11"), netip.MustParseAddr("fd09::11")
	of := func(self netip.Addr) string {
		t.Helper()
		bits := 24
		if self.Is6() {
			bits = 64
		}
		found, err := GatewaysOn(netip.PrefixFrom(self, bits).Masked(), self)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(found)
	}
	for _, c := range []struct {
		route       string
		here, there string // of both links of IPv6
	}{
		{"-6 route add default via fe80::1 dev up0", "[fe80::1]", "[]"},
		{"-6 route replace default via fe80::1 dev side0", "[]", "[fe80::1]"},
		{"-6 route replace default via fd01::1", "[fd01::1]", "[]"},
		{"-6 route replace default nexthop via fe80::2 dev up0 nexthop via fe80::1 dev side0", "[fe80::2]", "[fe80::1]"},
		{"-6 route del default", "[]", "[]"},
	} {
		ip(t, c.route)
		if here, there := of(self6), of(other); here != c.here || there != c.there {
			t.Errorf("after %s: %s and %s, want %s and %s", c.route, here, there, c.here, c.there)
		}
		if got := of(self4); got != "[10.1.0.1]" {
			t.Errorf("after %s: of IPv4 %s", c.route, got)
		}
	}
}
