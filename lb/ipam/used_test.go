package ipam

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/lb"
)

// takenBlocks are a Node's pods, a Node's address, ServiceCIDRs, and an externalIP of Service d/web.
func takenBlocks() []lb.Taken {
	block := netip.MustParsePrefix
	return []lb.Taken{
		{Prefix: block("192.0.2.0/31"), Who: "the pods of node w1"}, {Prefix: block("192.0.2.1/32"), Who: "node w9"},
		{Prefix: block("192.0.2.2/32"), Who: "node w2"}, {Prefix: block("192.0.2.3/32"), Who: "ServiceCIDR late", Proxied: true},
		{Prefix: block("192.0.2.4/32"), Who: "the externalIPs of service d/web", Service: lb.ServiceKey{Namespace: "d", Name: "web"}, Proxied: true},
	}
}

func TestWhoHasAnAddressIsToldToWhomIsRefusedIt(t *testing.T) {
	l := NewLedger()
	l.SetPools(pools(t, `    - {name: a, addresses: [192.0.2.0/29]}`), takenBlocks()...)
	for _, c := range []struct{ service, asks, want string }{
		{"d/s", "192.0.2.0", "pool a: AddressExcluded (192.0.2.0, taken by the pods of node w1 (192.0.2.0/31))"},
		{"d/s", "192.0.2.1", "pool a: AddressExcluded (192.0.2.1, taken by the pods of node w1 (192.0.2.0/31))"},
		{"d/s", "192.0.2.2", "pool a: AddressExcluded (192.0.2.2, taken by node w2)"},
		{"d/s", "192.0.2.3", "pool a: AddressExcluded (192.0.2.3, taken by ServiceCIDR late)"},
		{"d/s", "192.0.2.4", "pool a: AddressExcluded (192.0.2.4, taken by the externalIPs of service d/web)"},
		{"other/s", "192.0.2.4", "pool a: AddressExcluded (192.0.2.4, taken by the externalIPs of a Service of another namespace)"},
		{"d/web", "192.0.2.4", "192.0.2.4 of pool a"},
	} {
		if got := Allocate(l, with(service(c.service, "4"), ips(c.asks)), noon).String(); got != c.want {
			t.Errorf("%s asks for %s\ngot  %s\nwant %s", c.service, c.asks, got, c.want)
		}
	}
	if got := brief(Allocate(l, service("d/s", "4"), noon)); got != "192.0.2.5" {
		t.Errorf("who asks for nothing gets %s", got)
	}
}

// A Node joins, or a Service gets externalIPs, where VIPs are held: they stay, and so they do when their Services are looked at again.
// Nobody joins them there, and what is released comes to nobody before it is free again.
func TestAVIPStaysThatTheClusterTakesLater(t *testing.T) {
	inv := pools(t, `    - {name: a, addresses: [192.0.2.0/29]}`)
	for _, block := range takenBlocks() {
		l, a := NewLedger(), block.Prefix.Addr()
		shared := func(name string, port uint16) Request {
			r := with(service("e/"+name, "4"), ips(a.String()))
			r.Sharing, r.Ports = "key", []Port{{"TCP", port}}
			return r
		}
		l.SetPools(inv)
		apply(l, shared("has", 80), noon)
		l.SetPools(inv, takenBlocks()...)
		r := shared("has", 80)
		r.Shown = []netip.Addr{a}
		if got := apply(l, r, noon); len(got.VIPs) != 1 || got.VIPs[0].Addr != a || got.VIPs[0].New || len(got.Release) > 0 {
			t.Errorf("%s: the Service that has it is to have %s", block.Who, brief(got))
		}
		if reason, who := l.MayAdopt(a, shared("has", 80), noon), l.TakenBy(a, r.Service); who == "" || reason != "" != (block.Service == lb.ServiceKey{}) {
			t.Errorf("%s: of who has it %q is said, and of adopting it %q", block.Who, who, reason)
		}
		if got := Allocate(l, shared("joins", 81), noon); !got.Refused || got.Denials[0].Reason != lb.AddressExcluded {
			t.Errorf("%s: another one joins it: %s", block.Who, brief(got))
		}
		l.Release(a, r.Service, noon)
		for i, later := range []time.Time{noon, noon.Add(time.Hour)} {
			if got := Allocate(l, r, later); !got.Refused {
				t.Errorf("%s, %d: what was released is given: %s", block.Who, i, brief(got))
			}
		}
		l.SetPools(inv)
		if got := brief(Allocate(l, r, noon.Add(time.Hour))); !strings.HasPrefix(got, a.String()) {
			t.Errorf("%s: it is gone, and the address is not given: %s", block.Who, got)
		}
	}
}

// Whatever else is free, what is in quarantine of an externalIP is nobody's last resort.
func TestAnExternalIPInQuarantineIsGivenToNobody(t *testing.T) {
	inv := pools(t, `    - {name: a, addresses: [192.0.2.4]}`)
	l := NewLedger()
	l.SetPools(inv)
	apply(l, service("d/had", "4"), noon)
	l.Release(netip.MustParseAddr("192.0.2.4"), lb.ServiceKey{Namespace: "d", Name: "had"}, noon)
	l.SetPools(inv, takenBlocks()...)
	for _, who := range []string{"d/had", "d/other"} {
		if got := brief(Allocate(l, service(who, "4"), noon)); got != "refused a:PoolExhausted" {
			t.Errorf("%s: %s", who, got)
		}
	}
}

// A reservation is the operator's word, and externalIPs are anybody's who may edit Services.
func TestAReservationOutweighsTheExternalIPsOfOthers(t *testing.T) {
	inv := pools(t, `    - {name: a, addresses: [192.0.2.0/29], reserved: {192.0.2.4: prod/web}}`)
	for what, asks := range map[string]Ask{"by itself": {}, "by address": ips("192.0.2.4")} {
		l := NewLedger()
		l.SetPools(inv, takenBlocks()...) // d/web has externalIPs
		if got := Allocate(l, with(service("prod/web", "4"), asks), noon).String(); got != "192.0.2.4 of pool a" {
			t.Errorf("%s: %s", what, got)
		}
		for _, other := range []string{"d/s", "d/web"} {
			if got := brief(Allocate(l, with(service(other, "4"), ips("192.0.2.4")), noon)); got != "refused a:AddressReserved" {
				t.Errorf("%s asks for it: %s", other, got)
			}
		}
		if got := brief(Allocate(l, service("d/web", "4"), noon)); got != "192.0.2.5" {
			t.Errorf("d/web asks for nothing: %s", got)
		}
	}
}

// What an earlier Service of the name left stays with the one that it is reserved for.
func TestAReservedVIPThatWasLeftStaysThoughOthersHaveItAsAnExternalIP(t *testing.T) {
	inv := pools(t, `    - {name: a, addresses: [192.0.2.0/29], reserved: {192.0.2.4: prod/web}}`)
	l, a, r := NewLedger(), netip.MustParseAddr("192.0.2.4"), service("prod/web", "4")
	l.SetPools(inv, takenBlocks()...)
	l.Hold(a, "a", r.Holder)
	if got := brief(allocate(l, r, nil, []netip.Addr{a}, noon)); got != "192.0.2.4" {
		t.Error(got)
	}
}

// Another balancer gave a VIP before: it stays, as what Plinth gave does. Its own Service, a Service of another namespace, or
// both have it among their externalIPs, which leads its packets there already.
func TestAVIPOfAnotherBalancerIsAdoptedThoughItIsAnExternalIP(t *testing.T) {
	inv, a := pools(t, `    - {name: a, addresses: [192.0.2.0/29]}`), netip.MustParseAddr("192.0.2.4")
	for what, names := range map[string][]string{"its own": {"has"}, "another's": {"other"}, "both's": {"has", "other"}} {
		var has []lb.Taken
		for _, name := range names {
			k := lb.ServiceKey{Namespace: map[string]string{"has": "e", "other": "d"}[name], Name: name}
			has = append(has, lb.Taken{Prefix: netip.PrefixFrom(a, 32), Who: "the externalIPs of service " + k.String(), Service: k, Proxied: true})
		}
		s, r := NewState(), service("e/has", "4")
		s.SetPools(inv, has...)
		r.Shown = []netip.Addr{a}
		adopted, denied, _ := s.Adopt(r, noon)
		if len(adopted) != 1 || len(denied) > 0 {
			t.Errorf("%s: adopted %v, denied %v", what, adopted, denied)
		}
		if d, _ := s.Request(r, noon); d.Refused || len(d.VIPs) != 1 || d.VIPs[0].Addr != a {
			t.Errorf("%s: it then has %s", what, d)
		}
		if d, _ := s.Request(with(service("f/s", "4"), ips("192.0.2.4")), noon); !d.Refused {
			t.Errorf("%s: another Service is given it: %s", what, d)
		}
	}
}
