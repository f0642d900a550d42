package inventory_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestALinkLocalRouterIsReachedOverItsInterfaceWithEveryFamily(t *testing.T) {
	inv := inventorytest.Of(t, `
bgp: {asn: 65010}
pools: [{name: all, addresses: [203.0.113.0/25, "2001:db8:113::/112"]}]
racks:
	- name: r01
		subnets: [10.1.1.0/24, "2001:db8::/64"]
		routers: [{name: a, address: "fe80::1%eth0", asn: 65101}, {name: b, address: "fe80::1%eth1", asn: 65101}]
		machines: [{name: w1, addresses: [10.1.1.11, "2001:db8::b"]}, {name: w2, addresses: [10.1.1.12]}]
	- name: r02
		subnets: [10.1.2.0/24]
		routers: [{name: c, address: "fe80::1%eth0", asn: 65102}]
		machines: [{name: w3, addresses: [10.1.2.13]}]
`)
	for machine, want := range map[string]string{
		"w1": "a fe80::1%eth0 IPv4 and IPv6, b fe80::1%eth1 IPv4 and IPv6", "w2": "a fe80::1%eth0 IPv4, b fe80::1%eth1 IPv4", "w3": "c fe80::1%eth0 IPv4",
	} {
		m, _ := inv.Machine(machine)
		var got []string
		for _, s := range inv.Sessions(m) {
			got = append(got, fmt.Sprint(s.Router, " ", s.RouterAddr, " ", s.Families))
			if s.Local.IsValid() || s.NextHop4.IsValid() || s.NextHop6.IsValid() {
				t.Errorf("%s: an address of another link is in %+v", machine, s)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s has %q, want %q", machine, got, want)
		}
	}
	again, problems := document.Parse(document.Document{Source: "again.yaml", Data: document.Format(inv)})
	if again == nil || !bytes.Equal(document.Format(again), document.Format(inv)) {
		t.Errorf("it does not survive being written: %v", problems)
	}
}

func TestTheSettingNearestToASessionWins(t *testing.T) {
	inv := inventorytest.Of(t, `
bgp: {asn: 65010, holdTime: 30s, bfd: fast, learn: default, passwordFrom: {secret: all, key: k}}
bfdProfiles: [{name: fast, interval: 100ms}]
podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
routers:
	- {name: a, address: 10.1.1.1, asn: 65101, holdTime: 3s, bfd: off}
	- {name: b, addresses: [10.1.1.2, "2001:db8::2"], asn: 65010, port: 1179}
racks:
	- name: r01
		holdTime: 6s
		gracefulRestart: off
		advertise: {podCIDRs: false}
		machines:
			- {name: w1, addresses: [10.1.1.11, "2001:db8::b"]}
	- name: r02
		asn: 65020
		peers: [b]
		machines:
			- {name: w2, addresses: ["2001:db8::c", 10.1.1.12]}
`)
	w1, _ := inv.Machine("w1")
	fast := inventory.BFDProfile{Name: "fast", Interval: 100 * time.Millisecond, Multiplier: 3}
	common := inventory.Session{Local: addr("10.1.1.11"), LocalASN: 65010, Password: inventory.SecretKey{Secret: "all", Key: "k"}, Learn: inventory.LearnDefault, NextHop4: addr("10.1.1.11"), NextHop6: addr("2001:db8::b")}
	want := []inventory.Session{common, common, common}
	want[0].Router, want[0].RouterAddr, want[0].RouterASN, want[0].Port, want[0].HoldTime = "a", addr("10.1.1.1"), 65101, 179, 3*time.Second
	want[0].Families = inventory.Families{IPv4: true, IPv6: true}
	want[1].Router, want[1].RouterAddr, want[1].RouterASN, want[1].Port, want[1].HoldTime, want[1].BFD = "b", addr("10.1.1.2"), 65010, 1179, 6*time.Second, fast
	want[1].Families = inventory.Families{IPv4: true}
	want[2].Router, want[2].RouterAddr, want[2].RouterASN, want[2].Port, want[2].HoldTime, want[2].BFD = "b", addr("2001:db8::2"), 65010, 1179, 6*time.Second, fast
	want[2].Local, want[2].Families = addr("2001:db8::b"), inventory.Families{IPv6: true}
	if got := inv.Sessions(w1); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	w2, _ := inv.Machine("w2")
	got := inv.Sessions(w2)
	if len(got) != 2 || got[0].LocalASN != 65020 || got[0].HoldTime != 30*time.Second || got[0].RestartTime != time.Minute || !got[0].PodCIDRs || got[0].IBGP() {
		t.Errorf("the second rack's sessions: %+v", got)
	}
}

// TestASessionComesFromTheMachinesAddressOnTheRoutersLink has machines with a link and
// a subnet for each of two routers.
func TestASessionComesFromTheMachinesAddressOnTheRoutersLink(t *testing.T) {
	const spec = `
bgp: {asn: 65010, multihop: %d}
pools: [{name: all, addresses: [203.0.113.0/25, "2001:db8:113::/112"]}]
racks:
	- name: r01
		subnets: [%s]
		routers:
			- {name: a, addresses: [10.1.0.1, "2001:db8:1::1"], asn: 65101}
			- {name: b, addresses: [10.2.0.1, "2001:db8:2::1"], asn: %d}
		machines:
			- {name: w1, addresses: [%s]}
`
	const four, six = "10.1.0.0/24, 10.2.0.0/24", `, "2001:db8:1::/64", "2001:db8:2::/64"`
	for _, c := range []struct {
		name               string
		multihop           int
		subnets, addresses string
		asn                int
		want               string
	}{
		{"an address on each link", 0, four, "10.1.0.11, 10.2.0.11", 65101, "a 10.1.0.11, b 10.2.0.11"},
		{"within one AS", 0, four, "10.1.0.11, 10.2.0.11", 65010, "a 10.1.0.11, b 10.2.0.11"},
		{"the other link's address is preferred", 0, four, "10.2.0.11, 10.1.0.11", 65101, "a 10.1.0.11, b 10.2.0.11"},
		{"the first of several on a link", 0, four, "10.1.0.11, 10.2.0.12, 10.2.0.11", 65101, "a 10.1.0.11, b 10.2.0.12"},
		{"both families", 0, four + six, `10.1.0.11, "2001:db8:1::b", 10.2.0.11, "2001:db8:2::b"`, 65101, "a 10.1.0.11, a 2001:db8:1::b, b 10.2.0.11, b 2001:db8:2::b"},
		{"none on the second link", 0, four, "10.1.0.11", 65101, "a 10.1.0.11, b 10.1.0.11"},
		{"no subnets", 0, "", "10.1.0.11, 10.2.0.11", 65101, "a 10.1.0.11, b 10.1.0.11"},
		{"several hops", 2, four, "10.1.0.11, 10.2.0.11", 65101, "a 10.1.0.11, b 10.1.0.11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := inventorytest.Of(t, fmt.Sprintf(spec, c.multihop, c.subnets, c.asn, c.addresses))
			m, _ := inv.Machine("w1")
			var got []string
			for _, s := range inv.Sessions(m) {
				got = append(got, fmt.Sprint(s.Router, " ", s.Local))
				if own := map[bool]netip.Addr{true: s.NextHop4, false: s.NextHop6}[s.Local.Is4()]; own != s.Local {
					t.Errorf("the session with %s comes from %v, and its routes' next hop is %v", s.Router, s.Local, own)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestARackPeersWithItsOwnRoutersElseWithThoseOfTheSpec(t *testing.T) {
	inv := inventorytest.Of(t, `
bgp: {asn: 65010}
routers: [{name: core-b, address: 10.0.0.2, asn: 65000}, {name: core-a, address: 10.0.0.1, asn: 65000}]
racks:
	- {name: own, routers: [{name: tor, address: 10.1.1.1, asn: 65101}]}
	- {name: none}
	- {name: named, peers: [tor, core-a]}
`)
	for rack, want := range map[string]string{"own": "tor", "none": "core-a core-b", "named": "core-a tor"} {
		r, _ := inv.Rack(rack)
		if got := strings.Join(r.Peers, " "); got != want {
			t.Errorf("rack %s peers with %q, want %q", rack, got, want)
		}
	}
}

func TestANodeIsFoundByWhatItReports(t *testing.T) {
	inv := inventorytest.Of(t, `
racks:
	- name: r01
		machines:
			- {name: w1, id: SN-1, addresses: [10.1.1.11], aliases: ["k3s://w1"], match: {systemUUID: 4C4C4544-0032-3010-8053-B7C04F585931}}
			- {name: w2, addresses: [10.1.1.12]}
			- {name: w3, addresses: [10.1.1.13], aliases: ["k3s://w3"]}
`)
	const uuid = "4c4c4544-0032-3010-8053-b7c04f585931"
	ambiguous := &inventory.AmbiguousError{}
	for _, c := range []struct {
		what string
		node inventory.NodeIdentity
		want string // a machine, none or ambiguous
	}{
		{"by our providerID", inventory.NodeIdentity{ProviderID: "plinth://SN-1", Name: "other"}, "w1"},
		{"by our providerID, after the board was replaced", inventory.NodeIdentity{ProviderID: "plinth://SN-1", SystemUUID: inventory.ReportedUUID("00000000-0000-0000-0000-000000000001"), Name: "w1"}, "w1"},
		{"by an alias", inventory.NodeIdentity{ProviderID: "k3s://w1"}, "w1"},
		{"by systemUUID in any case", inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(strings.ToUpper(uuid))}, "w1"},
		{"by name, with a providerID of nobody's", inventory.NodeIdentity{ProviderID: "k3s://w2", Name: "w2"}, "w2"},
		{"by a name whose machine has another systemUUID", inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID("00000000-0000-0000-0000-000000000001"), Name: "w1"}, "none"},
		{"by nothing", inventory.NodeIdentity{ProviderID: "aws:///x", Name: "x"}, "none"},
		{"by an empty identity", inventory.NodeIdentity{}, "none"},
		{"by providerID, under the name of another", inventory.NodeIdentity{ProviderID: "plinth://SN-1", Name: "w2"}, "w1"},
		{"by systemUUID of one and name of another", inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(uuid), Name: "w2"}, "ambiguous"},
		{"by our providerID, with the systemUUID of another", inventory.NodeIdentity{ProviderID: "plinth://w2", SystemUUID: inventory.ReportedUUID(uuid)}, "w2"},
		{"by an alias of one and the systemUUID of another", inventory.NodeIdentity{ProviderID: "k3s://w3", SystemUUID: inventory.ReportedUUID(uuid)}, "ambiguous"},
		{"by its name, and a systemUUID of another that several report", inventory.NodeIdentity{Name: "w3", SystemUUID: inventory.ReportedUUID(uuid), UUIDShared: true}, "w3"},
		{"by an alias, and a systemUUID of another that several report", inventory.NodeIdentity{ProviderID: "k3s://w3", SystemUUID: inventory.ReportedUUID(uuid), UUIDShared: true}, "w3"},
		{"by a systemUUID that several report, and nothing else", inventory.NodeIdentity{Name: "x", SystemUUID: inventory.ReportedUUID(uuid), UUIDShared: true}, "w1"}, // the index sees that two Nodes claim it
		{"by our providerID of nobody, and the systemUUID of one", inventory.NodeIdentity{ProviderID: "plinth://w9", SystemUUID: inventory.ReportedUUID(uuid)}, "w1"},
	} {
		m, err := inv.MachineOf(c.node)
		got := m.Name
		switch {
		case errors.Is(err, inventory.ErrNoMachine):
			got = "none"
		case errors.As(err, &ambiguous):
			got = "ambiguous"
		}
		if got != c.want {
			t.Errorf("%s: got %s (%v), want %s", c.what, got, err, c.want)
		}
	}
}

func TestLabelsTellThePlaceAndTheirTwins(t *testing.T) {
	inv := inventorytest.Of(t, `
region: berlin
labels: {example.com/site: b1, example.com/owner: all}
racks:
	- {name: r01, zone: z1, row: a, machines: [{name: w1, unit: 7, type: big, labels: {example.com/owner: search}, addresses: [10.1.1.11]}]}
	- {name: r02, machines: [{name: w2, addresses: [10.1.1.12]}]}
`)
	w1, _ := inv.Machine("w1")
	want := map[string]string{
		"topology.kubernetes.io/region": "berlin", "failure-domain.beta.kubernetes.io/region": "berlin",
		"topology.kubernetes.io/zone": "z1", "failure-domain.beta.kubernetes.io/zone": "z1",
		"node.kubernetes.io/instance-type": "big", "beta.kubernetes.io/instance-type": "big",
		"plinth.dev/rack": "r01", "plinth.dev/row": "a", "plinth.dev/unit": "7",
		"example.com/site": "b1", "example.com/owner": "search",
	}
	if got := inv.Labels(w1); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w2, _ := inv.Machine("w2")
	got := inv.Labels(w2)
	if _, hasUnit := got["plinth.dev/unit"]; got["topology.kubernetes.io/zone"] != "r02" || hasUnit {
		t.Errorf("labels of a machine with no unit, zone or type: %v", got)
	}
}

func TestAMachineHasTheGraverStateOfItsOwnAndItsRacks(t *testing.T) {
	inv := inventorytest.Of(t, `
racks:
	- {name: r01, state: maintenance, machines: [{name: a, addresses: [10.1.1.1]}, {name: b, state: "off", addresses: [10.1.1.2]}]}
	- {name: r02, machines: [{name: c, state: maintenance, addresses: [10.1.1.3], taints: [{key: k, effect: NoExecute}]}]}
`)
	for name, want := range map[string]inventory.State{"a": inventory.StateMaintenance, "b": inventory.StateOff, "c": inventory.StateMaintenance} {
		if m, _ := inv.Machine(name); m.State != want {
			t.Errorf("%s is %s, want %s", name, m.State, want)
		}
	}
	a, _ := inv.Machine("a")
	b, _ := inv.Machine("b")
	c, _ := inv.Machine("c")
	if got := a.NodeTaints(); !slices.Equal(got, []inventory.Taint{inventory.TaintMaintenance}) {
		t.Errorf("taints in maintenance: %v", got)
	}
	if got := b.NodeTaints(); len(got) != 0 {
		t.Errorf("taints when off: %v", got)
	}
	if got := c.NodeTaints(); len(got) != 2 {
		t.Errorf("its own taint and that of maintenance: %v", got)
	}
}

func TestMachinesOfOneSubnetReachEachOtherDirectly(t *testing.T) {
	inv := inventorytest.Of(t, `
racks:
	- {name: r01, subnets: [10.1.0.0/24, 10.9.0.0/24], machines: [{name: a, addresses: [10.1.0.1]}, {name: b, addresses: [10.1.0.2]}, {name: x, addresses: [10.9.0.1]}]}
	- {name: r02, subnets: [10.2.0.0/24, 10.9.0.0/24], machines: [{name: c, addresses: [10.2.0.1]}, {name: y, addresses: [10.9.0.2]}]}
	- {name: r03, machines: [{name: d, addresses: [10.3.0.1]}, {name: e, addresses: [10.3.9.1]}]}
	- {name: r04, machines: [{name: f, addresses: [10.3.0.2]}]}
`)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a", "b", true}, {"a", "x", false}, {"a", "c", false}, {"x", "y", true}, {"d", "e", true}, {"d", "f", false}, {"a", "d", false},
	} {
		a, _ := inv.Machine(c.a)
		b, _ := inv.Machine(c.b)
		if inv.SameSubnet(a, b) != c.want || inv.SameSubnet(b, a) != c.want {
			t.Errorf("%s and %s of one subnet: want %v", c.a, c.b, c.want)
		}
	}
	slice := inv.Slice("r01")
	x, _ := slice.Machine("x")
	if y, _ := inv.Machine("y"); !slice.SameSubnet(x, y) {
		t.Error("a machine of a rack that the slice does not have is decided by the slice's subnets")
	}
}

func TestAnAddressIsOfThePoolThatDoesNotExcludeIt(t *testing.T) {
	inv := inventorytest.Of(t, `
pools:
	- {name: b, addresses: [10.0.2.0/24]}
	- {name: a, addresses: [10.0.1.0/24], exclude: [10.0.1.7]}
`)
	if p, ok := inv.PoolOf(addr("10.0.1.8")); !ok || p.Name != "a" {
		t.Errorf("10.0.1.8 is of pool %q", p.Name)
	}
	if p, ok := inv.PoolOf(addr("10.0.1.7")); ok {
		t.Errorf("an excluded address is of pool %q", p.Name)
	}
}

func TestAVolumeIsWhereItsStorageStands(t *testing.T) {
	inv := inventorytest.Of(t, `
storage:
	- {name: nas, rack: r01, nfs: {server: nas1}}
	- {name: nas6, rack: r02, nfs: {server: "fd00:0::5"}}
	- {name: san, rack: r02, iscsi: {portal: "10.1.1.50:3260"}}
	- {name: san6, rack: r01, iscsi: {portal: "[fd00::50]:860"}}
	- {name: ceph, rack: r01, csi: {driver: rbd.csi.ceph.com}}
	- {name: ceph-fast, rack: r02, csi: {driver: rbd.csi.ceph.com, attributes: {pool: fast}}}
racks: [{name: r01, zone: z1}, {name: r02, zone: z2}]
`)
	for _, c := range []struct {
		volume inventory.Volume
		want   string
	}{
		{inventory.Volume{NFSServer: inventory.ServerOf("nas1")}, "nas"},
		{inventory.Volume{NFSServer: inventory.ServerOf("NAS1.")}, "nas"},
		{inventory.Volume{NFSServer: inventory.ServerOf("nas2")}, ""},
		{inventory.Volume{NFSServer: inventory.ServerOf("FD00::5")}, "nas6"},
		{inventory.Volume{NFSServer: inventory.ServerOf("[fd00::0005]")}, "nas6"},
		{inventory.Volume{NFSServer: inventory.ServerOf("")}, ""},
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("10.1.1.50:3260")}, "san"},
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("10.1.1.50")}, "san"},
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("10.1.1.50:860")}, ""},
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("[FD00:0:0::50]:860")}, "san6"},
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("fd00::50")}, ""}, // of port 3260
		{inventory.Volume{ISCSIPortal: inventory.PortalOf("")}, ""},
		{inventory.Volume{CSIDriver: "rbd.csi.ceph.com", CSIAttributes: map[string]string{"pool": "slow"}}, "ceph"},
		{inventory.Volume{CSIDriver: "rbd.csi.ceph.com", CSIAttributes: map[string]string{"pool": "fast", "x": "y"}}, "ceph-fast"},
		{inventory.Volume{}, ""},
	} {
		if s, _ := inv.StorageOf(c.volume); s.Name != c.want {
			t.Errorf("%+v lives in %q, want %q", c.volume, s.Name, c.want)
		}
	}
	s, _ := inv.StorageOf(inventory.Volume{ISCSIPortal: inventory.PortalOf("10.1.1.50:3260")})
	if got := inv.VolumeLabels(s); got[inventory.LabelZone] != "z2" || got[inventory.LabelRegion] != "dc1" {
		t.Errorf("labels %v", got)
	}
}
