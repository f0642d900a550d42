//go:build privileged

package kernel

import (
	"fmt"
	"os"
	"testing"
)

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
	found, err := BadSettings(addrs("10.1.0.11", "fd01::11"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	want := "[net/ipv4/conf/up0/rp_filter net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/ipv6/conf/up0/accept_ra]"
	if got := fmt.Sprint(names); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	if err := FixSettings(found); err != nil {
		t.Fatal(err)
	}
	if left, err := BadSettings(addrs("10.1.0.11", "fd01::11")); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	if only4, _ := BadSettings(addrs("10.1.0.11")); len(only4) > 0 {
		t.Errorf("of IPv6, though there is none: %v", only4)
	}
}
