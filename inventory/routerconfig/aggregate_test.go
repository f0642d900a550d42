package routerconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestARacksBlockIsToldWhereItIsFirmGround(t *testing.T) {
	const site = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 64514}
  podNetwork: {mode: %s, cidrs: [10.244.0.0/16, "fd00:244::/48"], nodePrefix: {ipv4: 24, ipv6: 64}}
  routers:
    - {name: tor, addresses: [10.0.0.1, "2001:db8::1"], asn: 64513, os: frr%s}
    - {name: twin, address: 10.0.0.2, asn: 64512, os: frr%s}
  racks:
    - {name: r1, %s, machines: [{name: w1, addresses: [10.0.0.11%s}]}
  pools: [{name: default, addresses: [192.0.2.0/26]}]
`
	const one, both = `peers: [tor]`, `podCIDRs: [10.244.16.0/20, "fd00:244:0:100::/56"]`
	for _, c := range []struct {
		name, mode, tor, twin, rack string
		machine                     string   // its addresses from the second on, and the rest; empty: one of IPv6
		want                        []string // block, and whether it is told alone
		note                        string
	}{
		{"by hand, one router", "fabric", "", "", one + ", " + both, "", []string{"10.244.16.0/20 true", "fd00:244:0:100::/56 true"}, ""},
		{"by hand, two routers", "fabric", "", "", both, "",
			[]string{"10.244.16.0/20 false", "fd00:244:0:100::/56 false"}, "Other routers hear the pod CIDRs of r1, too"},
		{"two routers, of which one is told no pod CIDRs", "fabric", "", ", advertise: {podCIDRs: false}", both, "",
			[]string{"10.244.16.0/20 true", "fd00:244:0:100::/56 true"}, ""},
		{"carved", "fabric", "", "", one, "", nil, "No block is told for r1"},
		{"a router that is told no pod CIDRs", "fabric", ", advertise: {podCIDRs: false}", "", one + ", " + both, "", nil, ""},
		{"a family that no session carries", "fabric", "", "", one + ", " + both, "]", []string{"10.244.16.0/20 true"}, ""},
		{"a mode in which routers carry no pods", "overlay", "", "", one + ", " + both, "", nil, ""},
		{"a block for one machine", "fabric", "", "", one + `, podCIDRs: [10.244.16.0/24, "fd00:244:0:100::/56"]`, "",
			[]string{"fd00:244:0:100::/56 true"}, ""},
		{"a machine that has all of it by hand", "fabric", "", "", one + ", " + both, `, "2001:db8::11"], podCIDRs: [10.244.16.0/20, "fd00:244:0:100::/64"]`,
			[]string{"fd00:244:0:100::/56 true"}, ""},
		{"a rack without machines that are there", "fabric", "", "", one + ", " + both, "], state: retired", nil, "No machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := loaded(t, fmt.Sprintf(site, c.mode, c.tor, c.twin, c.rack, cmp.Or(c.machine, `, "2001:db8::11"]`)))
			router, _ := inv.Router("tor")
			s := newSide(inv, router)
			var got []string
			for _, a := range s.aggregates {
				got = append(got, fmt.Sprint(a.block, " ", a.alone))
			}
			if d := gocmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if has := slices.ContainsFunc(s.notes, func(n string) bool { return strings.Contains(n, c.note) }); c.note != "" && !has || c.note == "" && len(s.notes) > 0 {
				t.Errorf("the notes are %q", s.notes)
			}
		})
	}
}
