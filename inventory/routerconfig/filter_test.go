package routerconfig

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

func TestBlocksAreTheFewestPrefixesOfARange(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"a prefix is itself", "203.0.113.0/25", []string{"203.0.113.0/25"}},
		{"an address is one", "203.0.113.7", []string{"203.0.113.7/32"}},
		{"a crooked range falls apart", "10.0.0.7-10.0.0.13", []string{"10.0.0.7/32", "10.0.0.8/30", "10.0.0.12/31"}},
		{"all of IPv4", "0.0.0.0-255.255.255.255", []string{"0.0.0.0/0"}},
		{"the very last addresses", "255.255.255.254-255.255.255.255", []string{"255.255.255.254/31"}},
		{"IPv6", "2001:db8::1-2001:db8::4", []string{"2001:db8::1/128", "2001:db8::2/127", "2001:db8::4/128"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := document.ParseRange(c.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range r.Prefixes() {
				got = append(got, b.String())
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestBlocksCoverARangeOnceAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes of an address")
		draw := func(name string) netip.Addr {
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), width, width).Draw(t, name))
			return a
		}
		first, final := draw("first"), draw("last")
		if final.Less(first) {
			first, final = final, first
		}
		next := first
		for _, b := range (inventory.Range{First: first, Last: final}).Prefixes() {
			if b != b.Masked() || b.Addr() != next {
				t.Fatalf("%v does not begin at %v", b, next)
			}
			next = inventory.RangeOf(b).Last.Next()
		}
		if next != final.Next() {
			t.Fatalf("the blocks end before %v", next)
		}
	})
}

func TestAFilterLetsInThePoolAndNoMore(t *testing.T) {
	host := inventory.PrefixLengths{IPv4: 32, IPv6: 128}
	for _, c := range []struct {
		name, addresses, exclude string
		aggregate                inventory.PrefixLengths
		want                     []rule
	}{
		{"single addresses", "203.0.113.0/25", "", host,
			[]rule{{block: netip.MustParsePrefix("203.0.113.0/25"), length: 32}}},
		{"an aggregate, and single addresses within it", "203.0.113.0/25", "", inventory.PrefixLengths{IPv4: 28},
			[]rule{{block: netip.MustParsePrefix("203.0.113.0/25"), length: 28}, {block: netip.MustParsePrefix("203.0.113.0/25"), length: 32}}},
		{"an aggregate that is the pool", "203.0.113.0/25", "", inventory.PrefixLengths{IPv4: 25},
			[]rule{{block: netip.MustParsePrefix("203.0.113.0/25"), length: 25}, {block: netip.MustParsePrefix("203.0.113.0/25"), length: 32}}},
		{"no aggregate that is larger than the pool", "203.0.113.0/29", "", inventory.PrefixLengths{IPv4: 28},
			[]rule{{block: netip.MustParsePrefix("203.0.113.0/29"), length: 32}}},
		{"an excluded address that is in use stays", "203.0.113.0/25", "203.0.113.9", host,
			[]rule{{block: netip.MustParsePrefix("203.0.113.0/25"), length: 32}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := inventory.Pool{Ranges: ranges(t, c.addresses), Exclude: ranges(t, c.exclude)}
			f := &filter{}
			f.addPool(pool, inventory.Advertise{Aggregate: c.aggregate})
			f.sort()
			if d := cmp.Diff(c.want, f.vip4, cmp.AllowUnexported(rule{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); d != "" {
				t.Error(d)
			}
		})
	}
}

func ranges(t *testing.T, s string) []inventory.Range {
	t.Helper()
	if s == "" {
		return nil
	}
	r, err := document.ParseRange(s)
	if err != nil {
		t.Fatal(err)
	}
	return []inventory.Range{r}
}

func TestTheLimitHasRoomForEveryVIPAndKnowsABound(t *testing.T) {
	block := func(p string, length int) rule { return rule{block: netip.MustParsePrefix(p), length: length} }
	for _, c := range []struct {
		name string
		vips []rule
		pods int
		want int
	}{
		{"nothing but slack", nil, 0, 10},
		{"a small pool and a pod CIDR", []rule{block("203.0.113.0/26", 32)}, 1, 65 + 8 + 10},
		{"aggregates count as one", []rule{block("203.0.113.0/24", 28)}, 0, 16 + 2 + 10},
		{"as many as an agent says at most", []rule{block("2001:db8::/64", 128), block("10.0.0.0/8", 32)}, 0, 50_000 + 6_250 + 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := limit(c.vips, c.pods); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
