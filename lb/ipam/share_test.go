package ipam

import (
	"net/netip"
	"testing"
)

func TestAllocateShares(t *testing.T) {
	const yaml = `    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.3: d/kept}}`
	shared := func(key, sharing, backends string, ports ...Port) Request {
		r := service(key, "4")
		r.Sharing, r.Backends, r.Ports = sharing, backends, ports
		return r
	}
	web, dns := Port{"TCP", 80}, Port{"UDP", 53}
	at := func(r Request) Request { return with(r, ips("192.0.2.0")) }
	for _, tt := range []struct {
		name    string
		holder  Request
		request Request
		want    string
	}{
		{"the same key", shared("d/one", "k", "", web), shared("d/two", "k", "", dns), "192.0.2.0"},
		{"the same key, asking for it", shared("d/one", "k", "", web), at(shared("d/two", "k", "", dns)), "192.0.2.0"},
		{"another key", shared("d/one", "k", "", web), shared("d/two", "l", "", dns), "192.0.2.1"},
		{"another key, asking for it", shared("d/one", "k", "", web), at(shared("d/two", "l", "", dns)), "refused a:SharingKeyDiffers"},
		{"no key, asking for it", shared("d/one", "k", "", web), at(shared("d/two", "", "", dns)), "refused a:AddressInUse"},
		{"the same port", shared("d/one", "k", "", web), shared("d/two", "k", "", web), "192.0.2.1"},
		{"the same port, asking for it", shared("d/one", "k", "", web), at(shared("d/two", "k", "", web)), "refused a:SharingPortInUse"},
		{"the same number of another protocol", shared("d/one", "k", "", web), at(shared("d/two", "k", "", Port{"UDP", 80})), "192.0.2.0"},
		{"local traffic and the same backends", shared("d/one", "k", "app=x", web), at(shared("d/two", "k", "app=x", dns)), "192.0.2.0"},
		{"local traffic and other backends", shared("d/one", "k", "app=x", web), at(shared("d/two", "k", "app=y", dns)), "refused a:SharingBackendsDiffer"},
		{"local traffic beside cluster traffic", shared("d/one", "k", "", web), at(shared("d/two", "k", "app=x", dns)), "refused a:SharingBackendsDiffer"},
		{"another namespace with the same key", shared("d/one", "k", "", web), shared("e/two", "k", "", dns), "192.0.2.1"},
		{"another namespace with the same key, asking for it", shared("d/one", "k", "", web), at(shared("e/two", "k", "", dns)), "refused a:SharingNamespace"},
		{"beside the one that it is reserved for", with(shared("d/kept", "k", "", web), ips("192.0.2.3")), shared("d/two", "k", "", dns), "192.0.2.3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, yaml)
			apply(l, tt.holder, noon)
			if got := brief(Allocate(l, tt.request, noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestServiceThatNoLongerFitsMovesAndTheOthersStay(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30]}`)
	one, two := service("d/one", "4"), service("d/two", "4")
	one.Sharing, two.Sharing = "k", "k"
	two.Ports = []Port{{"TCP", 443}}
	apply(l, one, noon)
	apply(l, two, noon)
	one.Ports = []Port{{"TCP", 443}}
	if got := brief(apply(l, one, noon)); got != "192.0.2.1" {
		t.Errorf("the one that changed got %s", got)
	}
	if got := brief(Allocate(l, two, noon)); got != "192.0.2.0" {
		t.Errorf("the one that did not got %s", got)
	}
}

func TestWhoIsRefusedServesWhatItSaysWhereItIs(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/31]}`)
	shared := func(key string, ports ...uint16) Request {
		r := service(key, "4")
		r.Sharing, r.Ports = "k", nil
		for _, p := range ports {
			r.Ports = append(r.Ports, Port{"TCP", p})
		}
		return r
	}
	apply(l, shared("d/one", 80), noon)
	apply(l, with(service("e/else", "4"), ips("192.0.2.1")), noon)
	moving := with(shared("d/one", 8080), ips("192.0.2.1"))
	if got := brief(Allocate(l, moving, noon)); got != "192.0.2.0 refused a:SharingNamespace" {
		t.Fatal(got)
	}
	if !l.Says(moving.Holder) || l.Says(moving.Holder) {
		t.Error("what it says changed once, and then not again")
	}
	for _, tt := range []struct {
		name    string
		request Request
		want    string
	}{
		{"another with the port that it serves now", shared("d/two", 8080), "refused a:PoolExhausted"},
		{"another with the port that it was granted", shared("d/two", 80), "refused a:PoolExhausted"},
		{"another with neither", shared("d/two", 443), "192.0.2.0"},
		{"itself as it was", shared("d/one", 80), "192.0.2.0"},
		{"itself, content with where it is", shared("d/one", 8080), "192.0.2.0"},
	} {
		if got := brief(Allocate(l, tt.request, noon)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	if was := shared("d/one", 80).Holder; !l.Hold(netip.MustParseAddr("192.0.2.0"), "a", was) || l.Hold(netip.MustParseAddr("192.0.2.0"), "a", was) {
		t.Error("back at what it was granted, nothing changed, or something once more")
	}
	apply(l, shared("d/one", 9090), noon)
	if got := brief(Allocate(l, shared("d/two", 80, 8080), noon)); got != "192.0.2.0" {
		t.Errorf("what it says no more is still kept: %s", got)
	}
}

func TestSharedAddressIsFreeOnlyWhenTheLastHolderGoes(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30]}`)
	one, two := service("d/one", "4"), service("d/two", "4")
	one.Sharing, two.Sharing = "k", "k"
	two.Ports = []Port{{"TCP", 443}}
	vip := apply(l, one, noon).VIPs[0].Addr
	apply(l, two, noon)
	if l.Release(vip, one.Service, noon) {
		t.Error("the first of two holders was the last")
	}
	if c, _ := l.Holding(vip); len(c.Holders) != 1 || c.Holders[0].Service != two.Service {
		t.Errorf("held by %v", c.Holders)
	}
	if !l.Release(vip, two.Service, noon) {
		t.Error("the second of two holders was not the last")
	}
	if _, held := l.Holding(vip); held || len(l.shared) > 0 {
		t.Errorf("still held or shared: %v", l.shared)
	}
}
