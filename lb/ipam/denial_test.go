package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

func TestNoDenialNamesAServiceOfAnotherNamespace(t *testing.T) {
	l := NewLedger()
	l.SetPools(pools(t, `
    - {name: a, addresses: [192.0.2.0/28], reserved: {192.0.2.4: bank/vault}}
`))
	mine, theirs := service("shop/web", "4"), service("bank/web", "4")
	theirs.Sharing = "key"
	l.Hold(netip.MustParseAddr("192.0.2.1"), "a", theirs.Holder)
	l.Hold(netip.MustParseAddr("192.0.2.2"), "a", service("shop/other", "4").Holder)
	l.Quarantine(Quarantined{Addr: netip.MustParseAddr("192.0.2.3"), Owner: theirs.Service, Until: noon.Add(QuarantineTime)})
	for addr, want := range map[string]string{
		"192.0.2.1": "SharingNamespace (192.0.2.1)", "192.0.2.2": "AddressInUse (192.0.2.2, of shop/other)", // which is its neighbour
		"192.0.2.3": "AddressResting (192.0.2.3, until 2026-01-01T12:10:00Z)", "192.0.2.4": "AddressReserved (192.0.2.4)",
	} {
		r := with(mine, ips(addr))
		if addr == "192.0.2.1" {
			r.Sharing = "key"
		}
		d := Allocate(l, r, noon)
		if len(d.Denials) != 1 || strings.TrimPrefix(d.Denials[0].String(), "pool a: ") != want {
			t.Errorf("%s: %v, want %s", addr, d.Denials, want)
		}
	}
}

func TestWhoAsksForAPoolThatIsNotThereIsToldWhichAre(t *testing.T) {
	l := NewLedger()
	l.SetPools(pools(t, "    - {name: public, addresses: [192.0.2.0/28]}\n    - {name: staging, addresses: [198.51.100.0/28]}\n"))
	d := Allocate(l, with(service("d/s", "4"), asked(map[string]string{PoolAnnotation: "nosuch"}, "")), noon)
	if want := "pool nosuch: PoolUnknown (there is public, staging)"; len(d.Denials) != 1 || d.Denials[0].String() != want {
		t.Errorf("%v, want %s", d.Denials, want)
	}
	inv := &inventory.Inventory{}
	for i := range 12 {
		inv.Pools = append(inv.Pools, inventory.Pool{Name: string(rune('a' + i))})
	}
	l.SetPools(inv)
	if got := l.poolNames(); got != "a, b, c, d, e, f, g, h, i, j, and 2 more" {
		t.Errorf("of many: %s", got)
	}
}

// The number is of the inventory, and not of what is held this moment: all that are pending
// would be told anew with each address that is given.
func TestWhoFindsAPoolExhaustedIsToldItsSize(t *testing.T) {
	l := NewLedger()
	l.SetPools(pools(t, "    - {name: public, addresses: [192.0.2.0/30, 192.0.2.8], exclude: [192.0.2.1], reserved: {192.0.2.2: d/other}}\n    - {name: one, addresses: [198.51.100.1, \"2001:db8::/64\"], autoAssign: true}\n"))
	for i := range 4 {
		apply(l, service(fmt.Sprintf("d/s%d", i), "4"), noon)
	}
	want := "pool one: PoolExhausted (IPv4, its address is held or reserved); pool public: PoolExhausted (IPv4, all its 4 addresses are held or reserved)"
	before := Allocate(l, service("d/s", "4"), noon).String()
	if before != want {
		t.Errorf("got  %s\nwant %s", before, want)
	}
	apply(l, service("d/other", "4"), noon)
	if after := Allocate(l, service("d/s", "4"), noon).String(); after != before {
		t.Errorf("the message changes, and pending Services are as they were: %s", after)
	}
}

func TestAPoolLargerThanAnyNumberHasItsFamily(t *testing.T) {
	l := NewLedger()
	l.SetPools(pools(t, "    - {name: a, addresses: [\"2001:db8::/64\", \"2001:db8:0:1::1\"]}\n"))
	if size := l.pools[0].of(lb.IPv6).size; size != math.MaxUint64 {
		t.Errorf("it has %d addresses", size)
	}
}

func TestWhatIsNoNameOfAPoolIsToldToNobody(t *testing.T) {
	for _, name := range []string{"two words", "a\nb", "pu\u202eblic", "Public", strings.Repeat("a", 64), "-a"} {
		ask, _ := AskOf(map[string]string{PoolAnnotation: name}, "")
		if ask.Pool != "" || len(ask.Invalid) != 1 || ask.Invalid[0].Reason != lb.PoolUnknown || strings.Contains(ask.Invalid[0].String(), name) {
			t.Errorf("%q: %+v", name, ask)
		}
	}
	if ask, _ := AskOf(map[string]string{PoolAnnotation: "public-2"}, ""); ask.Pool != "public-2" || len(ask.Invalid) > 0 {
		t.Errorf("%+v", ask)
	}
}
