package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"unique"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/offers"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
)

func readyAt(addr string, local bool) offers.Endpoint {
	return offers.Endpoint{Addr: vip(addr), Node: unique.Make(""), Endpoint: advertise.Endpoint{Local: local, Ready: true, Serving: true}}
}

// crowd is a catalog of n Services, and an inventory whose pool they are of.
func crowd(b *testing.B, n int) (*offers.Index, plan.Inputs) {
	b.Helper()
	inv, problems := document.Load(document.Document{Source: "x.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
  pools: [{name: default, addresses: [10.99.0.0/16]}]
`)})
	if err := problems.Err(); err != nil {
		b.Fatal(err)
	}
	c := offers.NewIndex()
	for i := range n {
		k := key(fmt.Sprintf("svc-%d", i))
		c.ServiceChanged("", nil, &offers.Service{Key: k, UID: "1", Ours: true})
		c.ClaimChanged("", nil, &offers.Claim{VIP: netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)}), Holders: []lb.ServiceKey{k}, UID: "1"})
		c.SliceChanged(k.Name, nil, &offers.EndpointSlice{Service: k, IPv4: true, All: []offers.Endpoint{readyAt("10.0.0.1", true), readyAt("10.0.0.2", false)}})
	}
	in := plan.Inputs{Inventory: inv}
	in.Self.Identity.Name, in.Self.Name = "nuc1", "nuc1"
	return c, in
}

// BenchmarkPass is what one event costs among many Services: all but the kernel and
// the wire.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d Services", n), func(b *testing.B) {
			c, in := crowd(b, n+1)
			m, err := in.Machine()
			if err != nil {
				b.Fatal(err)
			}
			speaker := bgp.NewSpeaker(bgp.Options{})
			defer func() { _ = speaker.Leave(b.Context()) }()
			k := key("svc-0")
			slice := &offers.EndpointSlice{Service: k, IPv4: true}
			full := &offers.EndpointSlice{Service: k, IPv4: true, All: []offers.Endpoint{readyAt("10.0.0.1", true)}}
			routes := routing.Plan(plan.RoutingView(in, m, inventory.ModeNone, nil))
			var announcer advertise.Planner
			pass := func() {
				in.Offers = c.All()
				p := plan.Of(&announcer, in, m, plan.Phase{}, true, plan.Step{}, routes)
				if err := speaker.Set(b.Context(), p.BGP); err != nil {
					b.Fatal(err)
				}
			}
			pass()
			b.ReportAllocs()
			for b.Loop() {
				slice, full = full, slice
				c.SliceChanged("svc-0", full, slice)
				pass()
			}
		})
	}
}
