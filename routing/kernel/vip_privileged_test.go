//go:build privileged

package kernel

import (
	"os/exec"
	"strings"
	"testing"

	"plinth.dev/plinth/routing"
)

// answersForPools has a machine answer for addresses of pools that nobody serves.
func (h host) answersForPools() {
	h.Helper()
	h.inside(func() {
		tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
		h.Cleanup(tab.Close)
		set(h, tab, sorted(of(routing.UnreachableForwarded, "203.0.113.0/24"), of(routing.UnreachableForwarded, "2001:db8:113::/64")))
	})
}

// tries makes connections from one address, one after another, and counts those that fail with
// an error at once and those that wait in vain.
func (h host) tries(n int, from, url string) (refused, silent int) {
	h.Helper()
	for range n {
		out, ok := h.run("curl", "-g", "-s", "-S", "-m", "0.3", "-o", "/dev/null", "--interface", from, url)
		switch {
		case ok:
			h.Fatalf("%s is answered", url)
		case strings.Contains(out, "timed out"):
			silent++
		default:
			refused++
		}
	}
	return refused, silent
}

// TestWhatAVIPAnswers holds what docs/explanation/vips.md says.
func TestWhatAVIPAnswers(t *testing.T) {
	router, node, pod := vipSite(t)
	node.answersForPools()
	for _, vip := range []string{"203.0.113.5", "2001:db8:113::5"} {
		url := "http://" + vip
		if strings.Contains(vip, ":") {
			url = "http://[" + vip + "]"
		}
		out, _ := router.run("ping", "-n", "-c", "5", "-i", "0.5", "-W", "1", vip)
		t.Logf("ping %s: %s", vip, out)
		if !strings.Contains(out, " 0 received") || !strings.Contains(strings.ToLower(out), "unreachable") {
			t.Errorf("ping: %s", out)
		}
		for _, from := range []host{router, node, pod} {
			if !from.reaches(url) {
				t.Errorf("%s does not reach the served port of %s", from.name, vip)
			}
		}
	}
	router.ip("addr add 10.9.0.77/24 dev down0")
	refused, silent := router.tries(20, "10.9.0.77", "http://203.0.113.5:81")
	t.Logf("a port that nobody serves, 20 tries one after another: %d errors at once, %d time out", refused, silent)
	if refused == 0 || refused > 5 {
		t.Errorf("a port that nobody serves: %d errors at once, %d time out", refused, silent)
	}
	node.ip("route del default")
	if out, ok := node.run("curl", "-s", "-S", "-m", "5", "http://203.0.113.5"); ok || strings.Contains(out, "timed out") {
		t.Errorf("a machine without a default route to a VIP: %s", out)
	}
	for _, from := range []host{router, pod} {
		if !from.reaches("http://203.0.113.5") {
			t.Errorf("%s does not reach the VIP through a machine that has no default route, but one to it", from.name)
		}
	}
}

// farClient is a client behind two routers, of which the one further away has a link with a
// small MTU to it.
func farClient(t *testing.T, router host) host {
	t.Helper()
	second, client := newHost(t, "second").forwards(), newHost(t, "client")
	join(second, "down0", "10.7.0.1/24", router, "up0", "10.7.0.2/24")
	join(second, "up0", "10.6.0.1/24", client, "eth0", "10.6.0.2/24")
	second.ip("link set up0 mtu 1300")
	second.ip("route add default via 10.7.0.2")
	router.ip("route add 10.6.0.0/24 via 10.7.0.1")
	client.ip("route add default via 10.6.0.1")
	return client
}

// TestAnICMPErrorFindsItsFlowWhereTheRouterHashesAddresses counts large answers that a client
// behind a small MTU gets whole: with one machine, and with two, whose router sends ICMP errors
// of another router's by its hash.
func TestAnICMPErrorFindsItsFlowWhereTheRouterHashesAddresses(t *testing.T) {
	router, node, pod := vipSite(t)
	node.answersForPools()
	client := farClient(t, router)
	whole := func(n int, pods ...host) (got int) {
		for range n {
			for _, p := range pods {
				p.ip("route flush cache") // in which it remembers what it heard of the way
			}
			if client.reaches("http://203.0.113.5/big") {
				got++
			}
		}
		return got
	}
	if got := whole(3, pod); got != 3 {
		t.Fatalf("one machine: %d of 3", got)
	}
	other, pod2 := newHost(t, "node2").forwards(), newHost(t, "pod2")
	join(other, "up0", "10.9.1.2/24", router, "down1", "10.9.1.1/24")
	join(other, "pod0", "10.8.0.1/24", pod2, "eth0", "10.8.0.2/24")
	other.ip("route add default via 10.9.1.1")
	pod2.ip("route add default via 10.8.0.1")
	nft := exec.Command("ip", "netns", "exec", other.name, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(strings.ReplaceAll(proxyRules, "; }\n", ";\n }\n"))
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	pod2.serves(":8080")
	other.answersForPools()
	router.ip("route replace 203.0.113.0/24 nexthop via 10.9.0.2 nexthop via 10.9.1.2")
	counts := map[string]int{}
	for _, policy := range []string{"0", "1"} {
		router.must("sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy="+policy)
		counts[policy] = whole(20, pod, pod2)
		t.Logf("two machines, net.ipv4.fib_multipath_hash_policy=%s: %d of 20 answers are whole", policy, counts[policy])
	}
	if counts["0"] != 20 {
		t.Errorf("a hash of addresses: %d of 20", counts["0"])
	}
	if counts["1"] == 20 {
		t.Error("a hash of ports loses none: the page says that it does")
	}
}
