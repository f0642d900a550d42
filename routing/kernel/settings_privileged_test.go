//go:build privileged

package kernel

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"plinth.dev/plinth/routing"
)

// sysctls sets kernel settings until the test ends.
func sysctls(t *testing.T, values map[string]string) {
	t.Helper()
	for name, v := range values {
		before, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(path(name), before, 0o644) })
		if err := os.WriteFile(path(name), []byte(v), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func namesOf(all []Setting) (names []string) {
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// forwarding is on in both families, as --set-sysctls would have it.
func forwarding(t *testing.T) {
	sysctls(t, map[string]string{"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "0", "net/ipv6/conf/all/forwarding": "1", "net/ipv6/conf/up0/accept_ra": "2", "net/ipv4/conf/up0/rp_filter": "0"})
}

func TestSettingsOfTheLinksThatPacketsTakeAreNamed(t *testing.T) {
	uplink(t)
	ip(t, "link add side0 type veth peer name side1")
	t.Cleanup(func() { ip(t, "link del side0") })
	ip(t, "link set side0 up")
	ip(t, "addr add 10.1.0.11/32 dev lo")
	t.Cleanup(func() { ip(t, "addr del 10.1.0.11/32 dev lo") })
	forwarding(t)
	sysctls(t, map[string]string{"net/ipv6/conf/lo/accept_ra": "1"})
	advertised := map[string]string{"net/ipv6/conf/side0/accept_ra": "1"}
	two := []routing.Route{via("10.244.0.0/16", "10.1.0.1", "10.1.0.2")}
	overSide0 := []routing.Route{via("10.244.0.0/16", "fe80::1%side0")}
	for _, tt := range []struct {
		what   string
		set    map[string]string
		route  string // that somebody else has
		routes []routing.Route
		want   []string
	}{
		{"all is well, whatever the loopback link and links that nothing takes have", advertised, "", nil, nil},
		{"the uplink does not forward", map[string]string{"net/ipv4/conf/up0/forwarding": "0"}, "", nil, []string{"net/ipv4/conf/up0/forwarding"}},
		{"nor will links that are yet to come", map[string]string{"net/ipv4/conf/default/forwarding": "0"}, "", nil, []string{"net/ipv4/conf/default/forwarding"}},
		{"a link that nothing of ours takes does not forward", map[string]string{"net/ipv4/conf/side0/forwarding": "0"}, "", nil, nil},
		{"the link of a link-local router does not", map[string]string{"net/ipv4/conf/side0/forwarding": "0", "net/ipv6/conf/side0/accept_ra": "2"}, "", overSide0, []string{"net/ipv4/conf/side0/forwarding"}},
		{"no default route is known, and that link may have forgotten one", advertised, "", overSide0, []string{"net/ipv6/conf/side0/accept_ra"}},
		{"so may the uplink", map[string]string{"net/ipv6/conf/up0/accept_ra": "1"}, "", nil, []string{"net/ipv6/conf/up0/accept_ra"}},
		{"somebody gave a default route", map[string]string{"net/ipv6/conf/up0/accept_ra": "1"}, "-6 route add default via fe80::1 dev side0", nil, nil},
		{"a default route was learned by one", advertised, "-6 route add default via fe80::1 dev side0 proto ra", nil, []string{"net/ipv6/conf/side0/accept_ra"}},
		{"two routers take turns by addresses", map[string]string{"net/ipv4/fib_multipath_hash_policy": "0"}, "", two, []string{"net/ipv4/fib_multipath_hash_policy"}},
		{"two routers take turns by ports", map[string]string{"net/ipv4/fib_multipath_hash_policy": "1"}, "", two, nil},
		{"of one router it does not matter", map[string]string{"net/ipv4/fib_multipath_hash_policy": "0"}, "", two[:0], nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			sysctls(t, tt.set)
			if tt.route != "" {
				ip(t, tt.route)
				t.Cleanup(func() { ip(t, "-6 route del default dev side0") })
			}
			found, err := BadSettings(addrs("10.1.0.11", "fd01::11"), tt.routes)
			if got := namesOf(found); !slices.Equal(got, tt.want) || err != nil {
				t.Errorf("found %v, %v; want %v", found, err, tt.want)
			}
			if err := FixSettings(found); err != nil {
				t.Fatal(err)
			}
			if left, err := BadSettings(addrs("10.1.0.11", "fd01::11"), tt.routes); len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestSettingsThatKeepPacketsFromPodsAreNamedAndSet(t *testing.T) {
	uplink(t)
	for name, v := range map[string]string{
		"net/ipv4/ip_forward": "0", "net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/up0/rp_filter": "1",
		"net/ipv6/conf/all/forwarding": "0", "net/ipv6/conf/up0/accept_ra": "1",
	} {
		if err := os.WriteFile(path(name), []byte(v), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ip(t, "addr add fd01::77/64 dev up0 nodad valid_lft 3600 preferred_lft 3600") // as of a router advertisement
	t.Cleanup(func() { ip(t, "addr del fd01::77/64 dev up0") })
	found, err := BadSettings(addrs("10.1.0.11", "fd01::11"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "[net/ipv6/conf/up0/accept_ra net/ipv4/conf/up0/rp_filter net/ipv4/ip_forward net/ipv6/conf/all/forwarding]"
	if got := fmt.Sprint(namesOf(found)); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if err := FixSettings(found); err != nil {
		t.Fatal(err)
	}
	if left, err := BadSettings(addrs("10.1.0.11", "fd01::11"), nil); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	if only4, _ := BadSettings(addrs("10.1.0.11"), nil); len(only4) > 0 {
		t.Errorf("of IPv6, though there is none: %v", only4)
	}
}
