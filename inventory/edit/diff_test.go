package edit

import (
	"testing"

	"plinth.dev/plinth/inventory/inventorytest"
)

func TestADifferenceIsToldAsAPersonWould(t *testing.T) {
	const base = `
bgp: {asn: 65010}
routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
pools: [{name: public, addresses: [203.0.113.0/25]}]
racks:
	- {name: r01, machines: [{name: a, addresses: [10.1.1.1]}, {name: b, addresses: [10.1.1.2]}, {name: c, addresses: [10.1.1.3]}]}
	- {name: r02}
`
	for _, c := range []struct{ what, spec, want string }{
		{"nothing", base, ""},
		{"a machine is added, one moves, one goes and one is retired", `
bgp: {asn: 65010}
routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
pools: [{name: public, addresses: [203.0.113.0/25]}]
racks:
	- {name: r01, machines: [{name: b, addresses: [10.1.1.2], state: retired}, {name: d, addresses: [10.1.1.4]}]}
	- {name: r02, machines: [{name: c, addresses: [10.1.1.3]}]}
`, `machine a of rack r01 is no longer mentioned, and will be held
machine b of rack r01 is retired: its Node may be deleted
  state is set to retired
machine c moves to rack r02
  rack: r01 -> r02
machine d is added to rack r01
session of a with tor (10.1.0.1) ends
session of b with tor (10.1.0.1) ends
session of d with tor (10.1.0.1) comes up`},
		{"a hold time resets sessions, pod CIDRs do not", `
bgp: {asn: 65010, advertise: {podCIDRs: true}}
routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
pools: [{name: public, addresses: [203.0.113.0/25]}]
racks:
	- {name: r01, holdTime: 3s, machines: [{name: a, addresses: [10.1.1.1]}]}
	- {name: r02, machines: [{name: b, addresses: [10.1.1.2]}, {name: c, addresses: [10.1.1.3]}]}
`, `machine b moves to rack r02
  rack: r01 -> r02
machine c moves to rack r02
  rack: r01 -> r02
session of a with tor (10.1.0.1) is reset
session of b with tor (10.1.0.1) changes what it carries, and stays up
session of c with tor (10.1.0.1) changes what it carries, and stays up
spec.bgp.advertise.podCIDRs is set to true
spec.racks[r01].holdTime is set to 3s`},
		{"a router has another name, and a second one is in its place", `
bgp: {asn: 65010}
routers: [{name: leaf, address: 10.1.0.1, asn: 65101}, {name: tor, address: 10.1.0.2, asn: 65101}]
pools: [{name: public, addresses: [203.0.113.0/25]}]
racks:
	- {name: r01, machines: [{name: a, addresses: [10.1.1.1]}, {name: b, addresses: [10.1.1.2]}, {name: c, addresses: [10.1.1.3]}]}
	- {name: r02}
`, `session of a with tor (10.1.0.1) stays up under the name leaf
session of a with tor (10.1.0.2) comes up
session of b with tor (10.1.0.1) stays up under the name leaf
session of b with tor (10.1.0.2) comes up
session of c with tor (10.1.0.1) stays up under the name leaf
session of c with tor (10.1.0.2) comes up
spec.racks[r01].peers: [leaf] -> [leaf, tor]
spec.racks[r02].peers: [leaf] -> [leaf, tor]
spec.routers[tor].address is set to 10.1.0.2
spec.routers[tor].asn is set to 65101
spec.routers[tor].name is set to tor`},
		{"a pool shrinks and grows, another comes", `
bgp: {asn: 65010}
routers: [{name: tor, address: 10.1.0.1, asn: 65101}]
pools: [{name: public, addresses: [203.0.113.64/26, 203.0.114.0/28]}, {name: lab, addresses: [10.9.0.0/24]}]
racks:
	- {name: r01, machines: [{name: a, addresses: [10.1.1.1]}, {name: b, addresses: [10.1.1.2]}, {name: c, addresses: [10.1.1.3]}]}
	- {name: r02}
`, `pool lab is added: gains 10.9.0.0/24
pool public is shrunk: gains 203.0.114.0/28, loses 203.0.113.0/26, of which none is announced any more
  addresses: [203.0.113.0/25] -> [203.0.113.64/26, 203.0.114.0/28]`},
	} {
		if got := Diff(inventorytest.Of(t, base), inventorytest.Of(t, c.spec)).String(); got != c.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.what, got, c.want)
		}
	}
}
