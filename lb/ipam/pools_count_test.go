package ipam

import (
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

func TestPoolsAreTriedByPriorityThenName(t *testing.T) {
	var got []string
	for _, p := range byPreference([]inventory.Pool{{Name: "b"}, {Name: "a"}, {Name: "z", Priority: -1}}) {
		got = append(got, p.Name)
	}
	if want := []string{"z", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestWhatIsLeftOfEachPoolIsCounted(t *testing.T) {
	inv, problems := document.Load(document.Document{Source: "t.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
  pools:
    - {name: both, addresses: [192.168.50.0/29, "2001:db8::/64"], reserved: {192.168.50.7: prod/web}, exclude: [192.168.50.0]}
    - {name: empty, addresses: [192.168.51.4/31], exclude: [192.168.51.4/31]}
`)})
	if inv == nil {
		t.Fatal(problems)
	}
	l := NewLedger()
	l.SetPools(inv)
	l.Block(netip.MustParseAddr("192.168.50.3"))
	l.Block(netip.MustParseAddr("192.168.99.1")) // of no pool
	want := []PoolCount{{"both", lb.IPv4, 7, 5}, {"both", lb.IPv6, math.MaxUint64, math.MaxUint64}}
	if got := l.CountPools(time.Time{}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
