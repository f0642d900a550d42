package routerconfig

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// TestNoRouterHearsOfWhatIsOnALink: its side is, in every language, as if those addresses were not
// there.
func TestNoRouterHearsOfWhatIsOnALink(t *testing.T) {
	const text = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, subnets: [192.168.1.0/24, "fd00:1::/64"], machines: [{name: nuc1, addresses: [192.168.1.11, "fd00:1::b"]}]}]
  pools: [%s]
`
	of := func(pools string) *inventory.Inventory {
		inv, problems := document.Load(document.Document{Source: "home.yaml", Data: fmt.Appendf(nil, text, pools)})
		if inv == nil {
			t.Fatal(pools, problems)
		}
		return inv
	}
	const lan = `{name: lan, addresses: [192.168.1.192-192.168.1.219, "fd00:1::c0de:0/112"], advertise: {via: link}}`
	for _, c := range []struct{ what, with, without string }{
		{"a pool beside one for routers", "{name: public, addresses: [203.0.113.0/25]}, " + lan, "{name: public, addresses: [203.0.113.0/25]}"},
		{"a part of a pool", "{name: public, addresses: [203.0.113.0/25, 192.168.1.192-192.168.1.219], advertise: {via: link, aggregate: {ipv4: 28}}}", "{name: public, addresses: [203.0.113.0/25], advertise: {aggregate: {ipv4: 28}}}"},
		{"the only pool", lan, ""},
	} {
		for _, os := range inventory.Languages() {
			want, err := Render(of(c.without), "gateway", os, Options{})
			got, err2 := Render(of(c.with), "gateway", os, Options{})
			if (err == nil) != (err2 == nil) {
				t.Errorf("%s, %s: %v, and %v without it", c.what, os, err2, err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s, %s: %s", c.what, os, d)
			}
		}
	}
}
