package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// pools reads the pools of an inventory whose only machine has 10.10.1.11.
func pools(t testing.TB, yaml string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Parse(document.Document{Source: "test.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: test}
spec:
  bgp: {asn: 64514}
  routers:
    - {name: gateway, address: 10.10.1.1, asn: 64513}
  racks:
    - name: shelf
      machines:
        - {name: m1, addresses: [10.10.1.11]}
  pools:
` + yaml)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func ledgerOf(t testing.TB, yaml string) *Ledger {
	l := NewLedger()
	l.SetPools(pools(t, yaml))
	return l
}

// service is a Service of namespace/name that wants the families; a "?" after the
// second makes it optional.
func service(key, families string) Request {
	ns, name, _ := strings.Cut(key, "/")
	r := Request{Holder: Holder{Service: lb.ServiceKey{Namespace: ns, Name: name}, Ports: []Port{{"TCP", 80}}}}
	r.Want.Optional = strings.HasSuffix(families, "?")
	fs := []lb.Family{}
	for _, c := range strings.TrimSuffix(families, "?") {
		fs = append(fs, map[rune]lb.Family{'4': lb.IPv4, '6': lb.IPv6}[c])
	}
	r.Want.First = fs[0]
	if len(fs) > 1 {
		r.Want.Second = fs[1]
	}
	return r
}

// apply holds what was decided, as a caller does.
func apply(l *Ledger, r Request, now time.Time) Decision {
	d := Allocate(l, r, now)
	if !d.Refused {
		for _, v := range d.VIPs {
			l.Hold(v.Addr, v.Pool, r.Holder)
		}
		for _, a := range d.Release {
			l.Release(a, r.Service, now)
		}
	}
	return d
}

// brief prints a decision: the VIPs, then the Reasons.
func brief(d Decision) string {
	var s []string
	for _, v := range d.VIPs {
		s = append(s, v.Addr.String())
	}
	if d.Refused {
		s = append(s, "refused")
	}
	for _, x := range d.Denials {
		if x.Pool == "" {
			s = append(s, string(x.Reason))
		} else {
			s = append(s, x.Pool+":"+string(x.Reason))
		}
	}
	return strings.Join(s, " ")
}

func ips(list string) Ask {
	return asked(map[string]string{IPsAnnotation: list}, "")
}

func TestAllocateChoosesAPool(t *testing.T) {
	const two = `
    - {name: a, addresses: [192.0.2.0/30]}
    - {name: b, addresses: [198.51.100.0/30, "2001:db8:b::/64"], priority: -1}
`
	for _, tt := range []struct {
		name, pools string
		request     Request
		want        string
	}{
		{"the lowest address", "    - {name: a, addresses: [192.0.2.8/30]}", service("d/s", "4"), "192.0.2.8"},
		{"lower priority first", two, service("d/s", "4"), "198.51.100.0"},
		{"then by name", "    - {name: b, addresses: [192.0.2.0/30]}\n    - {name: a, addresses: [198.51.100.0/30]}", service("d/s", "4"), "198.51.100.0"},
		{"the second family where it is", two, service("d/s", "6"), "2001:db8:b::"},
		{"no pool of the family", "    - {name: a, addresses: [192.0.2.0/30]}", service("d/s", "6"), "refused a:PoolLacksFamily"},
		{"no pools", "    []", service("d/s", "4"), "refused NoPools"},
		{"skipFirstLast", "    - {name: a, addresses: [192.0.2.0/30], skipFirstLast: true}", service("d/s", "4"), "192.0.2.1"},
		{"skipFirstLast of a range that was not written as a prefix", "    - {name: a, addresses: [192.0.2.0-192.0.2.3], skipFirstLast: true}", service("d/s", "4"), "192.0.2.0"},
		{"skipFirstLast of a single address", "    - {name: a, addresses: [192.0.2.1/32], skipFirstLast: true}", service("d/s", "4"), "192.0.2.1"},
		{"exclude", `    - {name: a, addresses: [192.0.2.0/30], exclude: ["192.0.2.0-192.0.2.2"]}`, service("d/s", "4"), "192.0.2.3"},
		{"all excluded", `    - {name: a, addresses: [192.0.2.0/30], exclude: [192.0.2.0/30]}`, service("d/s", "4"), "refused a:PoolLacksFamily"},
		{"reserved for another", "    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.0: prod/web}}", service("d/s", "4"), "192.0.2.1"},
		{"reserved for this one", "    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.2: prod/web}}", service("prod/web", "4"), "192.0.2.2"},
		{"reserved in a pool that gives nothing by itself", two + "    - {name: c, addresses: [203.0.113.0/30], autoAssign: false, reserved: {203.0.113.2: prod/web}}", service("prod/web", "4"), "203.0.113.2"},
		{"reserved in a pool of other namespaces", "    - {name: a, addresses: [192.0.2.0/30], namespaces: [x], reserved: {192.0.2.2: prod/web}}", service("prod/web", "4"), "192.0.2.2"},
		{"reserved in a pool that drains", two + "    - {name: c, addresses: [203.0.113.0/30], state: draining, reserved: {203.0.113.2: prod/web}}", service("prod/web", "4"), "198.51.100.0"},
		{"autoAssign off", "    - {name: a, addresses: [192.0.2.0/30], autoAssign: false}", service("d/s", "4"), "refused a:PoolNotAutomatic"},
		{"draining", "    - {name: a, addresses: [192.0.2.0/30], state: draining}", service("d/s", "4"), "refused a:PoolIsDraining"},
		{"disabled", "    - {name: a, addresses: [192.0.2.0/30], state: disabled}", service("d/s", "4"), "refused a:PoolIsDisabled"},
		{"another namespace's", "    - {name: a, addresses: [192.0.2.0/30], namespaces: [prod]}", service("d/s", "4"), "refused a:NamespaceNotAllowed"},
		{"its namespace's", "    - {name: a, addresses: [192.0.2.0/30], namespaces: [x, prod]}", service("prod/s", "4"), "192.0.2.0"},
		{"labels that are not selected", "    - {name: a, addresses: [192.0.2.0/30], serviceSelector: {matchLabels: {tier: web}}}", service("d/s", "4"), "refused a:LabelsNotSelected"},
		{"labels that are", "    - {name: a, addresses: [192.0.2.0/30], serviceSelector: {matchLabels: {tier: web}}}", labelled(service("d/s", "4"), "tier", "web"), "192.0.2.0"},
		{"every no is told, in order of preference", `
    - {name: a, addresses: [192.0.2.0/30], state: draining}
    - {name: b, addresses: ["2001:db8::/64"]}
    - {name: c, addresses: [198.51.100.0/30], namespaces: [prod], priority: -1}
`, service("d/s", "4"), "refused c:NamespaceNotAllowed a:PoolIsDraining b:PoolLacksFamily"},
		{"the pool asked for", two, with(service("d/s", "4"), Ask{Pool: "a"}), "192.0.2.0"},
		{"a pool asked for although autoAssign is off", "    - {name: a, addresses: [192.0.2.0/30], autoAssign: false}", with(service("d/s", "4"), Ask{Pool: "a"}), "192.0.2.0"},
		{"a pool asked for that there is not", two, with(service("d/s", "4"), Ask{Pool: "z"}), "refused z:PoolUnknown"},
		{"a pool asked for without the family", two, with(service("d/s", "6"), Ask{Pool: "a"}), "refused a:PoolLacksFamily"},
		{"a pool asked for of another namespace", "    - {name: a, addresses: [192.0.2.0/30], namespaces: [prod]}", with(service("d/s", "4"), Ask{Pool: "a"}), "refused a:NamespaceNotAllowed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := brief(Allocate(ledgerOf(t, tt.pools), tt.request, noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func labelled(r Request, k, v string) Request {
	r.Labels = map[string]string{k: v}
	return r
}

func with(r Request, a Ask) Request {
	r.Ask = a
	return r
}

func TestAllocateGivesTheAddressesAskedFor(t *testing.T) {
	const yaml = `
    - {name: a, addresses: [192.0.2.0/28, "2001:db8::/112"], exclude: [192.0.2.3], reserved: {192.0.2.4: prod/web}}
    - {name: b, addresses: [198.51.100.0/30], autoAssign: false}
    - {name: c, addresses: [203.0.113.0/30], namespaces: [prod]}
`
	for _, tt := range []struct {
		name    string
		request Request
		want    string
	}{
		{"one address", with(service("d/s", "4"), ips("192.0.2.9")), "192.0.2.9"},
		{"both families", with(service("d/s", "46"), ips("2001:db8::9,192.0.2.9")), "192.0.2.9 2001:db8::9"},
		{"one asked for, the other found in the same pool", with(service("d/s", "46"), ips("192.0.2.9")), "192.0.2.9 2001:db8::"},
		{"from a pool that gives nothing by itself", with(service("d/s", "4"), ips("198.51.100.2")), "198.51.100.2"},
		{"from a pool of another namespace", with(service("d/s", "4"), ips("203.0.113.1")), "refused c:NamespaceNotAllowed"},
		{"from no pool", with(service("d/s", "4"), ips("198.51.100.99")), "refused AddressNotInPool"},
		{"a machine's", with(service("d/s", "4"), ips("10.10.1.11")), "refused AddressNotInPool"},
		{"a router's", with(service("d/s", "4"), ips("10.10.1.1")), "refused AddressNotInPool"},
		{"an excluded one", with(service("d/s", "4"), ips("192.0.2.3")), "refused a:AddressExcluded"},
		{"one reserved for another", with(service("d/s", "4"), ips("192.0.2.4")), "refused a:AddressReserved"},
		{"one reserved for it", with(service("prod/web", "4"), ips("192.0.2.4")), "192.0.2.4"},
		{"one that is held", with(service("d/s", "4"), ips("192.0.2.0")), "refused a:AddressInUse"},
		{"one that another program holds", with(service("d/s", "4"), ips("192.0.2.15")), "refused a:AddressInUse"},
		{"one of a family that it does not have", with(service("d/s", "4"), ips("2001:db8::9")), "refused FamilyNotRequested"},
		{"one of two is held", with(service("d/s", "46"), ips("192.0.2.0,2001:db8::9")), "refused a:AddressInUse"},
		{"one of two is held, the second optional", with(service("d/s", "46?"), ips("192.0.2.0,2001:db8::9")), "refused a:AddressInUse"},
		{"a pool that does not have it", with(service("d/s", "4"), Ask{Pool: "b", Addrs: ips("192.0.2.9").Addrs}), "refused b:AddressNotInPool"},
		{"a pool that has it", with(service("d/s", "4"), Ask{Pool: "a", Addrs: ips("192.0.2.9").Addrs}), "192.0.2.9"},
		{"several of a family, in that order", with(service("d/s", "4"), ips("192.0.2.9,192.0.2.1,192.0.2.5")), "192.0.2.9 192.0.2.1 192.0.2.5"},
		{"several of both families", with(service("d/s", "64"), ips("192.0.2.9,2001:db8::9,192.0.2.1,2001:db8::1")), "2001:db8::9 2001:db8::1 192.0.2.9 192.0.2.1"},
		{"several of one family, the other found", with(service("d/s", "46"), ips("192.0.2.9,192.0.2.1")), "192.0.2.9 192.0.2.1 2001:db8::"},
		{"several of one family, the other not to be had", with(service("d/s", "46?"), Ask{Pool: "b", Addrs: ips("198.51.100.1,198.51.100.0").Addrs}), "198.51.100.1 198.51.100.0 b:PoolLacksFamily"},
		{"several of several pools", with(service("d/s", "4"), ips("198.51.100.2,192.0.2.9")), "198.51.100.2 192.0.2.9"},
		{"several, one of them held", with(service("d/s", "4"), ips("192.0.2.9,192.0.2.0")), "refused a:AddressInUse"},
		{"several, of a family that it does not have", with(service("d/s", "4"), ips("192.0.2.9,2001:db8::9,2001:db8::8")), "refused FamilyNotRequested FamilyNotRequested"},
		{"one twice", with(service("d/s", "4"), ips("192.0.2.9,192.0.2.9")), "refused AddressInvalid"},
		{"something else than an address", with(service("d/s", "4"), ips("::ffff:192.0.2.9")), "refused AddressInvalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, yaml)
			apply(l, service("x/holder", "4"), noon)
			l.Block(netip.MustParseAddr("192.0.2.15"))
			if got := brief(Allocate(l, tt.request, noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAllocateAndTheTwoFamilies(t *testing.T) {
	const (
		four = "    - {name: a, addresses: [192.0.2.0/30]}\n"
		six  = `    - {name: b, addresses: ["2001:db8:b::/64"]}` + "\n"
		both = `    - {name: c, addresses: [198.51.100.0/30, "2001:db8:c::/64"]}` + "\n"
	)
	for _, tt := range []struct {
		name, pools, families, want string
	}{
		{"SingleStack in a pool of both", both, "6", "2001:db8:c::"},
		{"RequireDualStack in a pool of both", both, "46", "198.51.100.0 2001:db8:c::"},
		{"RequireDualStack prefers a pool of both", four + six + both, "64", "2001:db8:c:: 198.51.100.0"},
		{"RequireDualStack from two pools", four + six, "46", "192.0.2.0 2001:db8:b::"},
		{"RequireDualStack with one family", four, "46", "refused a:PoolLacksFamily"},
		{"PreferDualStack in a pool of both", both, "46?", "198.51.100.0 2001:db8:c::"},
		{"PreferDualStack with the first family", four, "46?", "192.0.2.0 a:PoolLacksFamily"},
		{"PreferDualStack with the second family", six, "46?", "2001:db8:b:: b:PoolLacksFamily"},
		{"PreferDualStack with none", "    []", "46?", "refused NoPools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := brief(Allocate(ledgerOf(t, tt.pools), service("d/s", tt.families), noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAllocateFollowsChangesOfTheFamilies(t *testing.T) {
	const yaml = `    - {name: a, addresses: [192.0.2.0/30, "2001:db8::/126"]}`
	for _, tt := range []struct {
		name, from, to, want, release string
	}{
		{"to RequireDualStack", "4", "46", "192.0.2.0 2001:db8::", ""},
		{"to PreferDualStack", "6", "64?", "2001:db8:: 192.0.2.0", ""},
		{"to SingleStack", "46", "4", "192.0.2.0", "2001:db8::"},
		{"to SingleStack of the second", "46", "6", "2001:db8::", "192.0.2.0"},
		{"to the other family", "4", "6", "2001:db8::", "192.0.2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, yaml)
			apply(l, service("d/s", tt.from), noon)
			d := Allocate(l, service("d/s", tt.to), noon)
			if got := brief(d); got != tt.want || list(d.Release) != tt.release {
				t.Errorf("got %s, releasing %q; want %s, releasing %q", got, list(d.Release), tt.want, tt.release)
			}
		})
	}
}

func TestVIPIsKeptWhatever(t *testing.T) {
	const before = `    - {name: a, addresses: [192.0.2.0/30]}`
	for _, tt := range []struct {
		name, after string
		request     Request
		want        string
	}{
		{"its pool shrinks", "    - {name: a, addresses: [192.0.2.2/31]}", service("d/s", "4"), "192.0.2.0"},
		{"its pool goes", "    []", service("d/s", "4"), "192.0.2.0"},
		{"its pool drains", "    - {name: a, addresses: [192.0.2.0/30], state: draining}", service("d/s", "4"), "192.0.2.0"},
		{"its pool is disabled", "    - {name: a, addresses: [192.0.2.0/30], state: disabled}", service("d/s", "4"), "192.0.2.0"},
		{"its pool becomes another namespace's", "    - {name: a, addresses: [192.0.2.0/30], namespaces: [x]}", service("d/s", "4"), "192.0.2.0"},
		{"the address is excluded", "    - {name: a, addresses: [192.0.2.0/30], exclude: [192.0.2.0]}", service("d/s", "4"), "192.0.2.0"},
		{"the address is reserved for another", "    - {name: a, addresses: [192.0.2.0/30], reserved: {192.0.2.0: x/y}}", service("d/s", "4"), "192.0.2.0"},
		{"a better pool appears", before + "\n    - {name: b, addresses: [198.51.100.0/30], priority: -1}", service("d/s", "4"), "192.0.2.0"},
		{"its pool is split and it asked for the old one", "    - {name: b, addresses: [192.0.2.0/30]}", with(service("d/s", "4"), Ask{Pool: "a"}), "192.0.2.0"},
		{"it asks for what it has", before, with(service("d/s", "4"), ips("192.0.2.0")), "192.0.2.0"},
		{"it asks for what it has although no pool has it any more", "    []", with(service("d/s", "4"), ips("192.0.2.0")), "192.0.2.0"},
		{"it asks for what there is not", before, with(service("d/s", "4"), Ask{Pool: "z"}), "192.0.2.0 refused z:PoolUnknown"},
		{"it asks for nonsense", before, with(service("d/s", "4"), ips("nonsense")), "192.0.2.0 refused AddressInvalid"},
		{"it asks for a second family that there is not", before, service("d/s", "46"), "192.0.2.0 refused a:PoolLacksFamily"},
		{"it asks for another address", before, with(service("d/s", "4"), ips("192.0.2.3")), "192.0.2.3"},
		{"it asks for another pool", before + "\n    - {name: b, addresses: [198.51.100.0/30]}", with(service("d/s", "4"), Ask{Pool: "b"}), "198.51.100.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, before)
			apply(l, service("d/s", "4"), noon)
			l.SetPools(pools(t, tt.after))
			if got := brief(Allocate(l, tt.request, noon)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestFamilyThatAServiceNoLongerHasIsGivenBackEvenIfItAsksForIt(t *testing.T) {
	l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30, "2001:db8::/126"]}`)
	asked := ips("192.0.2.1,2001:db8::1")
	apply(l, with(service("d/s", "46"), asked), noon)
	d := Allocate(l, with(service("d/s", "4"), asked), noon)
	if got := brief(d); got != "192.0.2.1 refused FamilyNotRequested" || list(d.Release) != "2001:db8::1" {
		t.Errorf("got %s, releasing %q", got, list(d.Release))
	}
}

func TestOfTwoAddressesOfOneFamilyTheOlderIsKept(t *testing.T) {
	for _, tt := range []struct {
		name        string
		low, high   time.Time
		want, gives string
	}{
		{"the lower is older", noon, noon.Add(time.Minute), "192.0.2.0", "192.0.2.1"},
		{"the higher is older", noon.Add(time.Minute), noon, "192.0.2.1", "192.0.2.0"},
		{"the lower is not taken yet", time.Time{}, noon, "192.0.2.1", "192.0.2.0"},
		{"both are of one second", noon, noon, "192.0.2.0", "192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, `    - {name: a, addresses: [192.0.2.0/30]}`)
			r := service("d/s", "4")
			for a, since := range map[string]time.Time{"192.0.2.0": tt.low, "192.0.2.1": tt.high} {
				l.Hold(netip.MustParseAddr(a), "a", r.Holder)
				l.HeldSince(netip.MustParseAddr(a), since)
			}
			if d := Allocate(l, r, noon); brief(d) != tt.want || list(d.Release) != tt.gives {
				t.Errorf("keeps %s and gives back %s, want %s and %s", brief(d), list(d.Release), tt.want, tt.gives)
			}
			r.Addrs = ips("nonsense").Addrs
			r.Invalid = ips("nonsense").Invalid
			if got := brief(Allocate(l, r, noon)); got != tt.want+" refused AddressInvalid" {
				t.Errorf("when it is refused it has %s", got)
			}
		})
	}
}

func TestAStatusIsTakenOverOnlyIfAskingForItWouldDo(t *testing.T) {
	const yaml = `
    - {name: a, addresses: [192.0.2.0/29], reserved: {192.0.2.5: x/y, 192.0.2.6: x/y}, exclude: [192.0.2.4]}
    - {name: b, addresses: [198.51.100.0/30], state: disabled}
    - {name: c, addresses: [203.0.113.0/30], namespaces: [prod]}
`
	resting, former := netip.MustParseAddr("192.0.2.1"), lb.ServiceKey{Namespace: "d", Name: "former"}
	for _, tt := range []struct {
		service, vip string
		after        time.Duration
		want         lb.Reason
	}{
		{"e/two", "192.0.2.2", 0, ""},
		{"e/two", "192.0.2.0", 0, lb.AddressInUse},
		{"e/two", "192.0.2.4", 0, lb.AddressExcluded},
		{"e/two", "192.0.2.5", 0, lb.AddressReserved},
		{"x/y", "192.0.2.5", 0, ""},
		{"e/two", "192.0.2.99", 0, lb.AddressNotInPool},
		{"e/two", "198.51.100.1", 0, ""},
		{"e/two", "203.0.113.1", 0, lb.NamespaceNotAllowed},
		{"d/former", "192.0.2.1", 0, ""},
		{"d/two", "192.0.2.1", 0, ""},
		{"e/two", "192.0.2.1", QuarantineTime - 1, lb.AddressResting},
		{"e/two", "192.0.2.1", QuarantineTime, ""},
		{"x/y", "192.0.2.6", 0, ""}, // which rests, too, and is reserved for it since
	} {
		t.Run(tt.service+" "+tt.vip, func(t *testing.T) {
			l := ledgerOf(t, yaml)
			apply(l, service("d/holder", "4"), noon)
			l.Quarantine(Quarantined{Addr: resting, Owner: former, Until: noon.Add(QuarantineTime)})
			l.Quarantine(Quarantined{Addr: netip.MustParseAddr("192.0.2.6"), Owner: former, Until: noon.Add(QuarantineTime)})
			if got := l.MayAdopt(netip.MustParseAddr(tt.vip), service(tt.service, "4"), noon.Add(tt.after)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPoolNeverGivesWhatTheInventoryOrTheClusterUses(t *testing.T) {
	inv := pools(t, `    - {name: a, addresses: [192.0.2.0/29]}`)
	addr := netip.MustParseAddr
	inv.Racks[0].Machines[0].Addresses = []netip.Addr{addr("192.0.2.0")}
	inv.Routers[0].Addresses = []netip.Addr{addr("192.0.2.1")}
	inv.Racks[0].Machines[0].PodCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/31")}
	l := NewLedger()
	l.SetPools(inv, lb.Taken{Prefix: netip.MustParsePrefix("192.0.2.4/31"), Who: "ServiceCIDR kubernetes"})
	if got := brief(Allocate(l, service("d/s", "4"), noon)); got != "192.0.2.6" {
		t.Errorf("got %s", got)
	}
	for i, a := 0, addr("192.0.2.0"); i < 6; i, a = i+1, a.Next() {
		if !l.Uses(a) {
			t.Errorf("%v is said to be nobody's", a)
		}
		if got := brief(Allocate(l, with(service("d/s", "4"), ips(a.String())), noon)); got != "refused a:AddressExcluded" {
			t.Errorf("%v: %s", a, got)
		}
	}
}

func TestPoolsThatOverlapGiveAnAddressOnce(t *testing.T) {
	inv := pools(t, "    - {name: a, addresses: [192.0.2.0/31]}\n    - {name: b, addresses: [192.0.2.4/31]}")
	inv.Pools[1].Ranges = inv.Pools[0].Ranges
	l := NewLedger()
	l.SetPools(inv)
	var got []string
	for i := range 3 {
		got = append(got, brief(apply(l, service(fmt.Sprintf("d/s%d", i), "4"), noon)))
	}
	if want := "192.0.2.0; 192.0.2.1; refused a:PoolExhausted b:PoolLacksFamily"; strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

func TestDenialReadsWell(t *testing.T) {
	for _, tt := range []struct {
		denial Denial
		want   string
	}{
		{Denial{Reason: lb.NoPools}, "NoPools"},
		{Denial{Reason: lb.PoolExhausted, Pool: "public", Family: lb.IPv4}, "pool public: PoolExhausted (IPv4)"},
		{Denial{Reason: lb.AddressInUse, Pool: "public", Address: netip.MustParseAddr("192.0.2.1"), Holder: lb.ServiceKey{Namespace: "d", Name: "s"}},
			"pool public: AddressInUse (192.0.2.1, of d/s)"},
		{Denial{Reason: lb.AddressResting, Address: netip.MustParseAddr("192.0.2.1"), Holder: lb.ServiceKey{Namespace: "d", Name: "s"}, Until: noon},
			"AddressResting (192.0.2.1, of d/s, until 2026-01-01T12:00:00Z)"},
		{Denial{Reason: lb.AddressInvalid, Detail: "it has a zone"}, "AddressInvalid (it has a zone)"},
	} {
		if got := tt.denial.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestServiceKeepsTheAddressThatItsStatusShows(t *testing.T) {
	older, newer := netip.MustParseAddr("192.0.2.0"), netip.MustParseAddr("192.0.2.1")
	for name, tt := range map[string]struct {
		shown []netip.Addr
		told  []netip.Addr
		want  netip.Addr
	}{
		"it shows neither":                        {nil, nil, older},
		"it shows the newer":                      {[]netip.Addr{newer}, nil, newer},
		"it was told of the newer":                {nil, []netip.Addr{newer}, newer},
		"it shows the older, and knows the newer": {[]netip.Addr{older}, []netip.Addr{newer}, older},
	} {
		l := NewLedger()
		l.SetPools(pools(t, "    - {name: a, addresses: [192.0.2.0/30]}"))
		r := service("d/s", "4")
		r.Shown = tt.shown
		for i, a := range []netip.Addr{older, newer} {
			l.Hold(a, "a", r.Holder)
			l.HeldSince(a, noon.Add(time.Duration(i)*time.Second))
		}
		if d := allocate(l, r, tt.told, nil, noon); len(d.VIPs) != 1 || d.VIPs[0].Addr != tt.want {
			t.Errorf("%s: it keeps %v, want %v", name, d.VIPs, tt.want)
		}
	}
}
