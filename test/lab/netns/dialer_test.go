package netns

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDialFromKnowsWhatARouterSaid of a SYN that ran out of hops between two routers.
func TestDialFromKnowsWhatARouterSaid(t *testing.T) {
	const client, router, other = "plt-dial-c", "plt-dial-r", "plt-dial-o"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{client, router, other} {
		must(Add(name))
		t.Cleanup(func() {
			if err := Delete(name); err != nil {
				t.Error(err)
			}
		})
		must(Sysctl(name, "net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv4/icmp_ratemask=0", "net/ipv6/icmp/ratemask=0",
			"net/ipv6/conf/default/accept_dad=0"))
	}
	must(IP("", "link add c netns "+client+" type veth peer name c netns "+router,
		"link add r netns "+router+" type veth peer name r netns "+other))
	must(IP(client, "addr add 10.0.0.1/31 dev c", "addr add fd00:0:0:1::1/64 dev c nodad", "link set c up",
		"route add default via 10.0.0.0", "route add ::/0 via fd00:0:0:1::2"))
	must(IP(router, "addr add 10.0.0.0/31 dev c", "addr add fd00:0:0:1::2/64 dev c nodad", "link set c up",
		"addr add 10.0.1.0/31 dev r", "addr add fd00:0:0:2::2/64 dev r nodad", "link set r up",
		"route add 203.0.113.1 via 10.0.1.1", "route add 2001:db8::1 via fd00:0:0:2::1"))
	must(IP(other, "addr add 10.0.1.1/31 dev r", "addr add fd00:0:0:2::1/64 dev r nodad", "link set r up",
		"route add default via 10.0.1.0", "route add ::/0 via fd00:0:0:2::2"))
	for _, name := range []string{client, router, other} {
		for from := time.Now(); !ready(t, name); time.Sleep(10 * time.Millisecond) {
			if time.Since(from) > 10*time.Second {
				t.Fatalf("%s has no link-local address", name)
			}
		}
	}

	d := NewDialer(client)
	defer d.Close()
	for i, address := range []string{"203.0.113.1", "2001:db8::1"} {
		for port := 1024; port < 1034; port++ { // more than a kernel says without being told to
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := d.DialFrom(ctx, port, net.JoinHostPort(address, "80"))
			cancel()
			if !errors.Is(err, syscall.EHOSTUNREACH) {
				t.Errorf("family %d, port %d: %v, want %v", i, port, err, syscall.EHOSTUNREACH)
			}
		}
	}
}

// ready reports whether each cable of a namespace has a link-local address: its kernel gives
// one when it has seen that the other end is up, and speaks no IPv6 there before.
func ready(t *testing.T, name string) bool {
	t.Helper()
	out, err := Output(t.Context(), name, "ip", "-6", "-o", "addr", "show", "scope", "link")
	if err != nil {
		t.Fatal(err)
	}
	links, err := Output(t.Context(), name, "ip", "-o", "link", "show", "type", "veth")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(out, "\n") == strings.Count(links, "\n")
}
