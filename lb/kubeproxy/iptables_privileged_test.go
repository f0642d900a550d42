//go:build privileged

package kubeproxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"plinth.dev/plinth/lb/advertise"
)

// site is a machine with a pod of its own, and a router behind which another machine
// answers for the VIP: what a connection of the first one would meet without rules.
func site(t testing.TB) (pod, elsewhere <-chan string) {
	t.Helper()
	sh(t, "ip link set lo up")
	for _, ns := range []string{"pod", "router", "other"} {
		ns := ns + fmt.Sprint(os.Getpid())
		sh(t, "ip netns add "+ns)
		t.Cleanup(func() { sh(t, "ip netns del "+ns) })
		sh(t, "ip -n "+ns+" link set lo up")
	}
	id := fmt.Sprint(os.Getpid())
	sh(t, "ip link add pod0 type veth peer name eth0 netns pod"+id)
	sh(t, "ip link add up0 type veth peer name down0 netns router"+id)
	sh(t, "ip -n router"+id+" link add far0 type veth peer name eth0 netns other"+id)
	t.Cleanup(func() { sh(t, "ip link del pod0"); sh(t, "ip link del up0") })
	for _, line := range []string{
		"ip addr add 10.244.1.1/24 dev pod0", "ip addr add fd00:244:1::1/64 dev pod0 nodad", "ip link set pod0 up",
		"ip addr add 10.1.0.11/24 dev up0", "ip addr add fd01::11/64 dev up0 nodad", "ip link set up0 up",
		"ip route add default via 10.1.0.1", "ip -6 route add default via fd01::1",
		"ip -n pod@ addr add 10.244.1.9/24 dev eth0", "ip -n pod@ addr add fd00:244:1::9/64 dev eth0 nodad", "ip -n pod@ link set eth0 up",
		"ip -n pod@ route add default via 10.244.1.1", "ip -n pod@ -6 route add default via fd00:244:1::1",
		"ip -n router@ addr add 10.1.0.1/24 dev down0", "ip -n router@ addr add fd01::1/64 dev down0 nodad", "ip -n router@ link set down0 up",
		"ip -n router@ addr add 10.2.0.1/24 dev far0", "ip -n router@ addr add fd02::1/64 dev far0 nodad", "ip -n router@ link set far0 up",
		"ip -n other@ addr add 10.2.0.12/24 dev eth0", "ip -n other@ addr add fd02::12/64 dev eth0 nodad", "ip -n other@ link set eth0 up",
		"ip -n other@ addr add 203.0.113.5/32 dev lo", "ip -n other@ addr add 2001:db8:113::5/128 dev lo nodad",
		"ip -n other@ route add default via 10.2.0.1", "ip -n other@ -6 route add default via fd02::1",
		"ip -n router@ route add 203.0.113.0/24 via 10.2.0.12", "ip -n router@ -6 route add 2001:db8:113::/64 via fd02::12",
		"ip netns exec router@ sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
		"sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
	} {
		sh(t, strings.ReplaceAll(line, "@", id))
	}
	for _, f := range families {
		sh(t, "ping -c 1 -W 5 "+f.pod) // the pod is a known neighbour, as one that is ready
	}
	return listen(t, "pod"+id, 8080), listen(t, "other"+id, 80)
}

// listen accepts connections in a namespace, and says of each how it ended.
func listen(t testing.TB, ns string, port int) <-chan string {
	t.Helper()
	l := in(t, ns, func() (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf(":%d", port)) })
	ends := make(chan string, 64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
			ends <- fmt.Sprint(err)
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return ends
}

// in runs do in a namespace.
func in[T any](t testing.TB, ns string, do func() (T, error)) T {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	there, err := netns.GetFromName(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close() }()
	if err := netns.Set(there); err != nil {
		t.Fatal(err)
	}
	out, err := do()
	if back := netns.Set(here); back != nil || err != nil {
		t.Fatal(err, back)
	}
	return out
}

// chains writes kube-proxy's chains of mode iptables, without Services.
func chains(t testing.TB, iptables string) {
	t.Helper()
	sh(t, iptables+" -t nat -N KUBE-SERVICES")
	sh(t, iptables+" -t nat -N KUBE-EXT-WEB")
	for _, hook := range []string{"OUTPUT", "PREROUTING"} {
		sh(t, iptables+" -t nat -A "+hook+" -m comment --comment portals -j KUBE-SERVICES")
	}
	sh(t, iptables+" -A FORWARD -m conntrack --ctstate INVALID -j DROP") // which has the kernel track connections
	t.Cleanup(func() { sh(t, iptables+" -t nat -F"); sh(t, iptables+" -t nat -X"); sh(t, iptables+" -F") })
}

func TestAConnectionThatIsPassedOnIsTheEvidenceInModeIptables(t *testing.T) {
	pod, _ := site(t)
	for _, f := range families {
		t.Run(f.iptables, func(t *testing.T) {
			var p Prober
			q := question(f.vip, "53/UDP,443/TCP,80/TCP")
			expect(t, "without kube-proxy", ask(t, &p, Round{}, q), advertise.Unknown)
			expect(t, "before the first sync of kube-proxy", ask(t, &p, Round{Proxy: true}, q), advertise.Absent)
			chains(t, f.iptables)
			expect(t, "while another machine answers", ask(t, &p, Round{}, q), advertise.Absent)
			sh(t, f.iptables+" -t nat -A KUBE-SERVICES -d "+f.vip.String()+" -p tcp -m tcp --dport 80 -j KUBE-EXT-WEB")
			sh(t, f.iptables+" -t nat -A KUBE-EXT-WEB -p tcp -j DNAT --to-destination "+netip.AddrPortFrom(netip.MustParseAddr(f.pod), 8080).String())
			expect(t, "with its rules", ask(t, &p, Round{}, q), advertise.Present)
			if how := next(t, pod); !strings.Contains(how, "reset") {
				t.Errorf("the endpoint's connection ended with %q, not a reset", how)
			}
			expect(t, "with UDP alone", ask(t, &p, Round{}, question(f.vip, "53/UDP")), advertise.Unknown)
			// loadBalancerSourceRanges that leave this machine out have it dropped.
			sh(t, f.iptables+" -A OUTPUT -p tcp -m tcp --dport 8080 -j DROP")
			expect(t, "where this machine may not connect", ask(t, &p, Round{}, question(f.vip, "80/TCP")), advertise.Unknown)
		})
	}
}

// TestNobodyElseHearsAConnectionWithoutRules: it ends at the next router.
func TestNobodyElseHearsAConnectionWithoutRules(t *testing.T) {
	_, elsewhere := site(t)
	chains(t, "iptables")
	var p Prober
	for range 5 {
		expect(t, "without rules", ask(t, &p, Round{}, question(vip4, "80/TCP")), advertise.Absent)
	}
	c, err := net.DialTimeout("tcp", netip.AddrPortFrom(vip4, 80).String(), 5*time.Second)
	if err != nil {
		t.Fatal("nobody answers without rules, so that this shows nothing:", err)
	}
	_ = c.Close()
	if how := next(t, elsewhere); how != io.EOF.Error() { // the one that was just made, and closed in good order
		t.Errorf("the other machine had a connection first that ended with %q", how)
	}
}

// TestConnectionsWithoutRulesFillNoTable: conntrack knows none of them a moment later.
func TestConnectionsWithoutRulesFillNoTable(t *testing.T) {
	site(t)
	for _, f := range families {
		chains(t, f.iptables)
		var p Prober
		before := notPassedOn(t, f.vip)
		for range 20 {
			expect(t, "without rules", ask(t, &p, Round{}, question(f.vip, "80/TCP")), advertise.Absent)
		}
		if now := notPassedOn(t, f.vip); now != before {
			t.Errorf("%v: conntrack knows %d connections, and knew %d before", f.vip, now, before)
		}
	}
}

// notPassedOn is how many connections to a VIP conntrack knows that met no rules.
func notPassedOn(t testing.TB, vip netip.Addr) (n int) {
	t.Helper()
	all, err := netlink.ConntrackTableList(netlink.ConntrackTable, netlink.InetFamily(family(vip)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if answers, _ := netip.AddrFromSlice(c.Reverse.SrcIP); answers.Unmap() == vip {
			n++
		}
	}
	return n
}

// next waits for the end of a connection.
func next(t testing.TB, ends <-chan string) string {
	t.Helper()
	select {
	case how := <-ends:
		return how
	case <-time.After(5 * time.Second):
		t.Fatal("no connection within 5 s")
	}
	return ""
}

func TestAMachineWithoutARouteToTheVIPHasNoEvidence(t *testing.T) {
	sh(t, "ip link set lo up")
	chains(t, "iptables")
	var p Prober
	expect(t, "without a default route", ask(t, &p, Round{}, question(vip4, "80/TCP")), advertise.Unknown)
}
