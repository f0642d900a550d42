package ipam

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
)

// TestServiceThatAsksForSeveralAddressesGetsThemAllInThatOrder is a law over random worlds: of a
// family that it asks for it has these, and no others; of another one, one.
func TestServiceThatAsksForSeveralAddressesGetsThemAllInThatOrder(t *testing.T) {
	live(t, func(_ *world, t *rapid.T, a answer) {
		if a.Refused {
			return
		}
		var want []netip.Addr
		for _, f := range a.Want.families() {
			for _, v := range a.VIPs {
				if lb.FamilyOf(v.Addr) == f && !a.asks(f) {
					want = append(want, v.Addr)
					break
				}
			}
			for _, x := range a.Request.Addrs {
				if lb.FamilyOf(x) == f {
					want = append(want, x)
				}
			}
		}
		if got := a.Decision.Addrs(); !slices.Equal(got, want) {
			t.Fatalf("%+v: %s, want %v", a.Request, brief(a.Decision), want)
		}
	}, nil)
}

// TestWhatBecomesOfSeveralAddresses follows edits of the annotation, and refusals of them.
func TestWhatBecomesOfSeveralAddresses(t *testing.T) {
	const yaml = `    - {name: a, addresses: [192.0.2.0/28, "2001:db8::/112"]}`
	addrs := func(list string) []netip.Addr { return ips(list).Addrs }
	for _, tt := range []struct {
		name, from, to, shown, told, want, release string
	}{
		{"one more", "192.0.2.5", "192.0.2.5,192.0.2.3", "192.0.2.5", "", "192.0.2.5 192.0.2.3", ""},
		{"one less", "192.0.2.5,192.0.2.3", "192.0.2.3", "192.0.2.5,192.0.2.3", "", "192.0.2.3", "192.0.2.5"},
		{"another one", "192.0.2.5,192.0.2.3", "192.0.2.5,192.0.2.4", "192.0.2.5,192.0.2.3", "", "192.0.2.5 192.0.2.4", "192.0.2.3"},
		{"another order", "192.0.2.5,192.0.2.3", "192.0.2.3,192.0.2.5", "192.0.2.5,192.0.2.3", "", "192.0.2.3 192.0.2.5", ""},
		{"none, and the first of the status stays", "192.0.2.5,192.0.2.3", "", "192.0.2.5,192.0.2.3", "", "192.0.2.5", "192.0.2.3"},
		{"one that another has: all that is shown stays", "192.0.2.5,192.0.2.3", "192.0.2.5,192.0.2.15", "192.0.2.5,192.0.2.3", "", "keeps 192.0.2.5 192.0.2.3", ""},
		{"one that another has: all that was told stays", "192.0.2.5,192.0.2.3", "192.0.2.15", "", "192.0.2.5,192.0.2.3", "keeps 192.0.2.5 192.0.2.3", ""},
		{"one that another has: what is shown outweighs what was told", "192.0.2.5,192.0.2.3", "192.0.2.15", "192.0.2.3", "192.0.2.5", "keeps 192.0.2.3", ""},
		{"one that another has: of two that nobody knows one is left", "192.0.2.5,192.0.2.3", "192.0.2.15", "", "", "keeps 192.0.2.3", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := ledgerOf(t, yaml)
			l.Block(netip.MustParseAddr("192.0.2.15"))
			apply(l, with(service("d/s", "4"), ips(tt.from)), noon)
			r := service("d/s", "4")
			if tt.to != "" {
				r.Ask = ips(tt.to)
			}
			var told []netip.Addr
			if tt.shown != "" {
				r.Shown = addrs(tt.shown)
			}
			if tt.told != "" {
				told = addrs(tt.told)
			}
			d := allocate(l, r, told, nil, noon)
			got := ""
			if d.Refused {
				got = "keeps "
			}
			for i, a := range d.Addrs() {
				if i > 0 {
					got += " "
				}
				got += a.String()
			}
			if got != tt.want || list(d.Release) != tt.release {
				t.Errorf("got %s, releasing %q; want %s, releasing %q", got, list(d.Release), tt.want, tt.release)
			}
		})
	}
}

// TestSeveralAddressesAreKeptWhateverBecomesOfTheirPools, as one is.
func TestSeveralAddressesAreKeptWhateverBecomesOfTheirPools(t *testing.T) {
	for _, after := range []string{
		"    []",
		"    - {name: a, addresses: [192.0.2.0/28], state: draining}",
		"    - {name: a, addresses: [192.0.2.0/28], state: disabled}",
		"    - {name: a, addresses: [192.0.2.0/28], namespaces: [other]}",
		"    - {name: a, addresses: [192.0.2.0/30]}",
	} {
		l := ledgerOf(t, "    - {name: a, addresses: [192.0.2.0/28]}")
		r := with(service("d/s", "4"), ips("192.0.2.5,192.0.2.3,192.0.2.9"))
		apply(l, r, noon)
		l.SetPools(pools(t, after))
		if d := Allocate(l, r, noon); brief(d) != "192.0.2.5 192.0.2.3 192.0.2.9" || len(d.Release) > 0 {
			t.Errorf("after %s: %s", after, brief(d))
		}
	}
}

// TestAfterARestoreAServiceHasAllAddressesThatItAsksForAgain: the backup is older than the second.
func TestAfterARestoreAServiceHasAllAddressesThatItAsksForAgain(t *testing.T) {
	first, second := netip.MustParseAddr("192.0.2.5"), netip.MustParseAddr("192.0.2.3")
	for list, want := range map[string]bool{"192.0.2.5,192.0.2.3": true, "192.0.2.5": false} {
		r := with(service("d/s", "4"), ips(list))
		s := NewState()
		s.Load([]Object{{Addr: first, Pool: "a", Parent: r.Service, Holders: []lb.ServiceKey{r.Service}}}, []Request{r})
		s.SetPools(pools(t, "    - {name: a, addresses: [192.0.2.0/28]}"))
		anew, _ := s.Restore(second, "a", []Request{r}, r.Service, noon)
		if anew != want || s.IsHolder(second, r.Service) != want {
			t.Errorf("who asks for %s has %v: %v, again %v", list, second, s.IsHolder(second, r.Service), anew)
		}
	}
}
