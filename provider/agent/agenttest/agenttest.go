package agenttest

import (
	"net/netip"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/sorted"
)

// OneMachine is the inventory of a machine at home.
func OneMachine(t testing.TB) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "x.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
  pools: [{name: default, addresses: [192.168.50.0/26, 192.168.60.1-192.168.60.4], exclude: [192.168.50.0/27, 192.168.60.4]}]
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

// SomeInputs returns the inputs of the machine of [OneMachine], with a neighbour, a VIP and a password.
func SomeInputs(t testing.TB) plan.Inputs {
	return plan.Inputs{
		Inventory: OneMachine(t),
		Self:      plan.Node{Node: routing.Node{Name: "nuc1", Rack: "shelf", Created: time.Unix(1, 0).UTC(), PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}, Identity: inventory.NodeIdentity{Name: "nuc1"}},
		Nodes:     []*routing.Node{{Name: "nuc2", Rack: "shelf", Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.12")}}},
		Offers:    sorted.Of(advertise.Offer{Service: lb.ServiceKey{Namespace: "prod", Name: "web"}, VIP: netip.MustParseAddr("192.168.50.40"), Endpoints: advertise.Endpoints{Any: 1}}),
		Passwords: map[inventory.SecretKey]bgp.Password{{Secret: "bgp", Key: "tor"}: "s3cret"},
	}
}
