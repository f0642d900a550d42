package bgp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
)

// communities parses communities.
func communities(t *testing.T, ss ...string) inventory.Communities {
	t.Helper()
	var cs []inventory.Community
	for _, s := range ss {
		c, err := inventory.ParseCommunity(s)
		if err != nil {
			t.Fatal(err)
		}
		cs = append(cs, c)
	}
	return inventory.CommunitiesOf(cs...)
}

func TestARouteBearsTheAttributesOfItsAdvertisement(t *testing.T) {
	own := sessionTo("10.10.1.1")
	own.RouterASN = own.LocalASN
	large := sessionTo("10.10.1.1")
	large.LocalASN = 4200000001
	full := func(prefix string) advertise.Advertisement {
		ad := advertisement(prefix)
		ad.LocalPref, ad.Prepend, ad.Bandwidth = 200, 2, 125_000
		ad.Communities = communities(t, "65010:100", "65535:0", "large:65010:1:7")
		return ad
	}
	tests := []struct {
		name    string
		session inventory.Session
		ad      advertise.Advertisement
		want    []string
	}{
		{"the least", sessionTo("10.10.1.1"), advertisement("203.0.113.10/32"), []string{"{Origin: i}", "{Nexthop: 0.0.0.0}"}},
		{"IPv6 over IPv4", sessionTo("10.10.1.1"), advertisement("2001:db8:113::10/128"), []string{"{Origin: i}", "{MpReach(ipv6-unicast): {Nexthop: 2001:db8:10:1::b, NLRIs: [2001:db8:113::10/128:0]}}"}},
		{"to another AS: no local preference", sessionTo("10.10.1.1"), full("203.0.113.10/32"), []string{
			"{Origin: i}", "{AsPath: 65010 65010}", "{Communities: 65010:100, planned-shut}", "{LargeCommunity: [ 65010:1:7]}", "{Extcomms: [65010:125000]}", "{Nexthop: 0.0.0.0}"}},
		{"to the own AS: no prepending", own, full("203.0.113.10/32"), []string{
			"{Origin: i}", "{LocalPref: 200}", "{Communities: 65010:100, planned-shut}", "{LargeCommunity: [ 65010:1:7]}", "{Extcomms: [65010:125000]}", "{Nexthop: 0.0.0.0}"}},
		{"from an AS of four octets", large, full("203.0.113.10/32"), []string{
			"{Origin: i}", "{AsPath: 4200000001 4200000001}", "{Communities: 65010:100, planned-shut}", "{LargeCommunity: [ 65010:1:7]}", "{Extcomms: [23456:125000]}", "{Nexthop: 0.0.0.0}"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := path(tt.session, tt.ad)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range p.Attrs {
				got = append(got, strings.TrimSpace(fmt.Sprint(a)))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
