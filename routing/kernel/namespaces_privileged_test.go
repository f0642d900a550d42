//go:build privileged

package kernel

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/wait"
)

// host is a namespace that stands for a machine, a pod, a router or a client.
type host struct {
	testing.TB
	name string
}

func newHost(t testing.TB, name string) host {
	t.Helper()
	h := host{t, fmt.Sprintf("plt-%d-%s", os.Getpid(), name)}
	ip(t, "netns add "+h.name)
	t.Cleanup(func() { ip(t, "netns del "+h.name) })
	h.ip("link set lo up")
	return h
}

func (h host) ip(args string) string {
	h.Helper()
	return ip(h, "-n "+h.name+" "+args)
}

// run runs a command inside and reports whether it succeeded.
func (h host) run(args ...string) (string, bool) {
	out, err := exec.Command("ip", append([]string{"netns", "exec", h.name}, args...)...).CombinedOutput()
	return string(out), err == nil
}

func (h host) must(args ...string) {
	h.Helper()
	if out, ok := h.run(args...); !ok {
		h.Fatalf("%v in %s: %s", args, h.name, out)
	}
}

func (h host) forwards() host {
	h.must("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	return h
}

// join links two hosts, each end with the addresses given.
func join(a host, aDev string, aAddrs string, b host, bDev string, bAddrs string) {
	a.Helper()
	ip(a, fmt.Sprintf("link add %s netns %s type veth peer name %s netns %s", aDev, a.name, bDev, b.name))
	for _, end := range []struct {
		host
		dev, addrs string
	}{{a, aDev, aAddrs}, {b, bDev, bAddrs}} {
		for _, addr := range strings.Fields(end.addrs) {
			nodad := ""
			if strings.Contains(addr, ":") {
				nodad = " nodad"
			}
			end.ip("addr add " + addr + " dev " + end.dev + nodad)
		}
		end.ip("link set " + end.dev + " up")
	}
}

// inside runs do on a thread that is in the host's namespace.
func (h host) inside(do func()) {
	h.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromName(h.name)
		if err != nil {
			h.Error(err)
			return
		}
		defer func() { _ = ns.Close() }()
		if err := netns.Set(ns); err != nil {
			h.Error(err)
			return
		}
		do()
	}()
	<-done
}

func (h host) reaches(url string) bool {
	_, ok := h.run("curl", "-g", "-s", "-f", "-o", "/dev/null", "-m", "2", url)
	return ok
}

// pings sends until one echo comes back, since the first ones may go while the
// link's neighbours are still unknown.
func (h host) pings(addr netip.Addr) bool {
	_, ok := h.run("ping", "-n", "-c", "1", "-W", "1", "-w", "5", addr.String())
	return ok
}

// proxyRules do what kube-proxy does for a VIP's port 80: rewrite its destination
// before the route of what comes in is looked up, and after that of what goes out.
const proxyRules = `
table ip proxy {
  chain in { type nat hook prerouting priority -100; ip daddr 203.0.113.5 tcp dport 80 dnat to 10.8.0.2:8080; }
  chain out { type nat hook output priority -100; ip daddr 203.0.113.5 tcp dport 80 dnat to 10.8.0.2:8080; }
  chain post { type nat hook postrouting priority 100; oifname "pod0" masquerade; }
}
table ip6 proxy {
  chain in { type nat hook prerouting priority -100; ip6 daddr 2001:db8:113::5 tcp dport 80 dnat to [fd08::2]:8080; }
  chain out { type nat hook output priority -100; ip6 daddr 2001:db8:113::5 tcp dport 80 dnat to [fd08::2]:8080; }
  chain post { type nat hook postrouting priority 100; oifname "pod0" masquerade; }
}`

// vipSite is a router, a node behind it and a pod on the node that serves a VIP.
func vipSite(t *testing.T) (router, node, pod host) {
	router, node, pod = newHost(t, "router").forwards(), newHost(t, "node").forwards(), newHost(t, "pod")
	join(node, "up0", "10.9.0.2/24 fd09::2/64", router, "down0", "10.9.0.1/24 fd09::1/64")
	join(node, "pod0", "10.8.0.1/24 fd08::1/64", pod, "eth0", "10.8.0.2/24 fd08::2/64")
	for h, routes := range map[host][]string{
		node:   {"route add default via 10.9.0.1", "-6 route add default via fd09::1"},
		pod:    {"route add default via 10.8.0.1", "-6 route add default via fd08::1"},
		router: {"route add 203.0.113.0/24 via 10.9.0.2", "-6 route add 2001:db8:113::/64 via fd09::2"},
	} {
		for _, r := range routes {
			h.ip(r)
		}
	}
	nft := exec.Command("ip", "netns", "exec", node.name, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(strings.ReplaceAll(proxyRules, "; }\n", ";\n }\n"))
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	pod.serves(":8080")
	return router, node, pod
}

// serves answers HTTP requests until the test ends, and those for /big with 300,000 bytes.
func (h host) serves(address string) {
	h.Helper()
	var listener net.Listener
	h.inside(func() {
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			h.Error(err)
		}
	})
	if listener == nil {
		h.Fatalf("nobody listens in %s", h.name)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			_, _ = w.Write(make([]byte, 300_000))
		}
	})}
	go func() { _ = server.Serve(listener) }()
	h.Cleanup(func() { _ = server.Close() })
}

// echoes counts the packets that a router sent a node to ask for an echo of a VIP: a
// packet that goes round between the two is sent more than once.
const echoes = `
table inet count {
  chain out { type filter hook postrouting priority 0;
    oifname "down0" ip daddr 203.0.113.77 counter
    oifname "down0" ip6 daddr 2001:db8:113::77 counter
  }
}`

// counted are the packets that the rules of echoes saw, of IPv4 and of IPv6.
func (h host) counted() (packets []int) {
	h.Helper()
	out, ok := h.run("nft", "list", "table", "inet", "count")
	if !ok {
		h.Fatal(out)
	}
	for _, m := range regexp.MustCompile(`packets (\d+)`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			h.Fatal(err)
		}
		packets = append(packets, n)
	}
	return packets
}

func TestPortOfAVIPThatNobodyServesIsAnsweredAndServedOnesStayReachable(t *testing.T) {
	router, node, pod := vipSite(t)
	var tab *Table
	node.inside(func() {
		tab = NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
		set(t, tab, sorted(of(routing.UnreachableForwarded, "203.0.113.0/24"), of(routing.UnreachableForwarded, "2001:db8:113::/64")))
	})
	t.Cleanup(tab.Close)
	for _, vip := range []string{"203.0.113.5", "[2001:db8:113::5]"} {
		for _, from := range []host{router, node, pod} {
			if !from.reaches("http://" + vip) {
				t.Errorf("%s does not reach %s", from.name, vip)
			}
		}
		for _, from := range []host{router, pod} {
			if out, ok := from.run("curl", "-g", "-s", "-S", "-m", "10", "http://"+vip+":81"); ok || strings.Contains(out, "timed out") {
				t.Errorf("%s, port 81 of %s: %s", from.name, vip, out)
			}
		}
	}
	nft := exec.Command("ip", "netns", "exec", router.name, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(echoes)
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	for _, ask := range []struct {
		from      host
		vip, node string
	}{
		{router, "203.0.113.77", "10.9.0.2"}, {router, "2001:db8:113::77", "fd09::2"},
		{pod, "203.0.113.77", "10.8.0.1"}, {pod, "2001:db8:113::77", "fd08::1"},
	} {
		out, _ := ask.from.run("ping", "-n", "-c", "1", "-W", "1", ask.vip)
		if !strings.Contains(strings.ToLower(out), "from "+ask.node) || !strings.Contains(strings.ToLower(out), "unreachable") {
			t.Errorf("the node does not answer %s for a VIP that nobody holds:\n%s", ask.from.name, out)
		}
	}
	// Its own ones, and none of the pod's.
	if got := router.counted(); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("packets to a VIP that nobody holds go round: the router sent %v", got)
	}
}

// overlaySite is three machines with a pod each. The first two are of one subnet.
func overlaySite(t testing.TB) (nodes, pods []host, views []routing.View) {
	core := newHost(t, "core").forwards()
	all := []*routing.Node{
		{Name: "a", Addresses: addrs("10.1.0.11", "fd01::11"), PodCIDRs: cidrs("10.244.1.0/24", "fd00:244:0:1::/64")},
		{Name: "b", Addresses: addrs("10.1.0.12", "fd01::12"), PodCIDRs: cidrs("10.244.2.0/24", "fd00:244:0:2::/64")},
		{Name: "c", Addresses: addrs("10.2.0.13", "fd02::13"), PodCIDRs: cidrs("10.244.3.0/24", "fd00:244:0:3::/64")},
	}
	core.ip("link add br1 type bridge")
	core.ip("addr add 10.1.0.1/24 dev br1")
	core.ip("-6 addr add fd01::1/64 dev br1 nodad")
	core.ip("link set br1 up")
	for i, n := range all {
		h, pod := newHost(t, n.Name).forwards(), newHost(t, "pod-"+n.Name)
		subnet := n.Addresses[0].As4()[1]
		up := fmt.Sprintf("%v/24 %v/64", n.Addresses[0], n.Addresses[1])
		if subnet == 1 {
			join(h, "up0", up, core, "to-"+n.Name, "")
			core.ip("link set to-" + n.Name + " master br1")
		} else {
			join(h, "up0", up, core, "to-"+n.Name, "10.2.0.1/24 fd02::1/64")
		}
		h.ip(fmt.Sprintf("route add default via 10.%d.0.1", subnet))
		h.ip(fmt.Sprintf("-6 route add default via fd%02d::1", subnet))
		gw4, gw6 := n.PodCIDRs[0].Addr().Next(), n.PodCIDRs[1].Addr().Next()
		join(h, "pod0", fmt.Sprintf("%v/24 %v/64", gw4, gw6), pod, "eth0", fmt.Sprintf("%v/24 %v/64", gw4.Next(), gw6.Next()))
		pod.ip("route add default via " + gw4.String())
		pod.ip("-6 route add default via " + gw6.String())
		nodes, pods = append(nodes, h), append(pods, pod)
		views = append(views, routing.View{
			Mode: inventory.ModeOverlay, Cluster: cidrs("10.244.0.0/16", "fd00:244::/48"), VXLAN: inventory.DefaultVXLAN, Self: *all[i], Nodes: all,
			Subnets: cidrs(fmt.Sprintf("10.%d.0.0/24", subnet), fmt.Sprintf("fd%02d::/64", subnet)),
		})
	}
	return nodes, pods, views
}

func addrs(ss ...string) (out []netip.Addr) {
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func cidrs(ss ...string) (out []netip.Prefix) {
	for _, s := range ss {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestOverlayCarriesEveryPodToEveryPodAndHost(t *testing.T) {
	nodes, pods, views := overlaySite(t)
	for i, h := range nodes {
		h.inside(func() {
			tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
			defer tab.Close()
			plan := routing.Plan(views[i])
			for range 2 { // the second time finds all in place
				if err := tab.SetTunnel(context.Background(), plan.Tunnel); err != nil {
					t.Error(err)
				}
				set(t, tab, plan.Routes)
				tab.Invalidate()
			}
			if s := set(t, tab, plan.Routes); s.Changed != 0 {
				t.Errorf("%s: changed %d", h.name, s.Changed)
			}
		})
	}
	for _, from := range pods {
		for i, v := range views {
			for _, c := range v.Self.PodCIDRs {
				if dst := c.Addr().Next().Next(); !from.pings(dst) {
					t.Errorf("%s does not reach pod %v of %s", from.name, dst, nodes[i].name)
				}
			}
		}
	}
	for _, dst := range addrs("10.244.3.2", "fd00:244:0:3::2") {
		if !nodes[0].pings(dst) {
			t.Errorf("the node itself does not reach %v", dst)
		}
	}
	device := nodes[0].ip("-d link show plinth-vxlan")
	for _, want := range []string{"mtu 1450", "vxlan id 114", "local 10.1.0.11", "dstport 4789", "nolearning", " udpcsum"} {
		if !strings.Contains(device, want) {
			t.Errorf("no %q in the device %s", want, device)
		}
	}
	offloads, _ := nodes[0].run("ethtool", "-k", "plinth-vxlan")
	for _, want := range []string{"tx-checksumming: on", "scatter-gather: on", "tcp-segmentation-offload: on", "generic-receive-offload: on"} {
		if !strings.Contains(offloads, want) {
			t.Errorf("no %q in\n%s", want, offloads)
		}
	}
	if fdb, _ := nodes[0].run("bridge", "fdb", "show", "dev", "plinth-vxlan"); strings.Contains(fdb, "00:00:00:00:00:00") {
		t.Errorf("the device floods:\n%s", fdb)
	}
	if got := nodes[0].ip("route show 10.244.2.0/24"); !strings.Contains(got, "via 10.1.0.12 dev up0") {
		t.Errorf("a node of the same subnet is reached by %q", got)
	}
}

// While the routers still lead to all pods, as at a change from fabric, each route
// through the tunnel is taken at once, also where the kernel makes no link-local address.
func TestRoutesThroughTheTunnelAreTakenWhileAnotherRouteLeadsToAllPods(t *testing.T) {
	nodes, _, views := overlaySite(t)
	for i, generation := range []string{"0", "1"} {
		nodes[i].must("sysctl", "-qw", "net.ipv6.conf.default.addr_gen_mode="+generation)
		nodes[i].inside(func() {
			tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
			defer tab.Close()
			fabric := views[i]
			fabric.Mode, fabric.Gateways = inventory.ModeFabric, addrs("10.1.0.1", "fd01::1")
			set(t, tab, routing.Plan(fabric).Routes)
			plan := routing.Plan(views[i])
			if err := tab.SetTunnel(context.Background(), plan.Tunnel); err != nil {
				t.Error(err)
			}
			tab.Invalidate() // with fresh eyes it tries once
			set(t, tab, plan.Routes)
		})
	}
}

func TestTunnelFollowsItsPeersAndGoesWithoutATrace(t *testing.T) {
	nodes, _, views := overlaySite(t)
	h, v := nodes[0], views[0]
	h.inside(func() {
		tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
		defer tab.Close()
		apply := func(v routing.View) {
			plan := routing.Plan(v)
			if err := tab.SetTunnel(context.Background(), plan.Tunnel); err != nil {
				t.Error(err)
			}
			set(t, tab, plan.Routes)
		}
		apply(v)
		if got := h.ip("neigh show dev plinth-vxlan"); !strings.Contains(got, "10.244.3.0 lladdr 02:72:0a:02:00:0d PERMANENT") {
			t.Errorf("neighbours:\n%s", got)
		}
		moved := v
		moved.Nodes = []*routing.Node{v.Nodes[0], v.Nodes[1], {Name: "c", Addresses: addrs("10.2.0.14"), PodCIDRs: cidrs("10.244.9.0/24")}}
		apply(moved)
		fdb, _ := h.run("bridge", "fdb", "show", "dev", "plinth-vxlan")
		if strings.Contains(fdb, "10.2.0.13") || !strings.Contains(fdb, "02:72:0a:02:00:0e dst 10.2.0.14 self permanent") {
			t.Errorf("forwarding entries:\n%s", fdb)
		}
		if got := h.ip("neigh show dev plinth-vxlan"); strings.Contains(got, "10.244.3.0") || !strings.Contains(got, "10.244.9.0") {
			t.Errorf("neighbours:\n%s", got)
		}
		h.ip("link del plinth-vxlan")
		tab.Invalidate()
		apply(moved)
		if err := tab.Clear(context.Background()); err != nil {
			t.Error(err)
		}
		if got := h.ip("link"); strings.Contains(got, "plinth") {
			t.Errorf("left behind:\n%s", got)
		}
	})
}

func TestEntriesOfTheTunnelThatSomebodyRemovesOrChangesAreBack(t *testing.T) {
	nodes, _, views := overlaySite(t)
	h, plan := nodes[0], routing.Plan(views[0])
	h.inside(func() {
		tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
		defer tab.Close()
		apply := func() {
			if err := tab.SetTunnel(context.Background(), plan.Tunnel); err != nil {
				t.Error(err)
			}
			set(t, tab, plan.Routes)
		}
		doubt, err := tab.Watch(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		apply()
		entries := func() string {
			fdb, _ := h.run("bridge", "fdb", "show", "dev", "plinth-vxlan")
			return h.ip("neigh show dev plinth-vxlan nud permanent") + fdb
		}
		want := entries()
		for _, hand := range [][]string{
			{"ip", "neigh", "del", "10.244.3.0", "dev", "plinth-vxlan"},
			{"ip", "neigh", "replace", "10.244.3.0", "lladdr", "02:00:00:00:00:09", "dev", "plinth-vxlan"},
			{"bridge", "fdb", "del", "02:72:0a:02:00:0d", "dev", "plinth-vxlan"},
			{"bridge", "fdb", "append", "00:00:00:00:00:00", "dev", "plinth-vxlan", "dst", "10.2.0.99"},
		} {
			h.must(hand...)
			wait.True(t, 15*time.Second, 10*time.Millisecond, fmt.Sprintf("%v is repaired to\n%s", hand, want), func() (bool, string) {
				select {
				case <-doubt:
					tab.Invalidate()
					apply()
				default:
				}
				now := entries()
				return now == want, now
			})
		}
	})
}

// TestAPodWithALargerMTUThanTheTunnelHearsOfIt is what docs/guides/pod-networks.md says of a
// CNI whose MTU does not follow the tunnel's.
func TestAPodWithALargerMTUThanTheTunnelHearsOfIt(t *testing.T) {
	nodes, pods, views := overlaySite(t)
	inEach(t, nodes, views, true)
	for _, addr := range []string{"10.244.3.2", "fd00:244:0:3::2"} {
		out, _ := pods[0].run("ping", "-n", "-M", "do", "-s", "1440", "-c", "3", "-W", "1", addr)
		if !strings.Contains(out, "1450") {
			t.Errorf("no ICMP error names the tunnel's MTU:\n%s", out)
		}
		if out, _ := pods[0].run("ip", "route", "get", addr); !strings.Contains(out, "mtu 1450") {
			t.Errorf("the pod has not learned the MTU: %s", out)
		}
		if out, ok := pods[0].run("ping", "-n", "-M", "do", "-s", "1390", "-c", "1", "-W", "2", addr); !ok {
			t.Errorf("what fits does not arrive: %s", out)
		}
	}
	pods[1].ip("link set eth0 mtu 1450")
	if out, ok := pods[1].run("ping", "-n", "-M", "do", "-s", "1422", "-c", "1", "-W", "2", "10.244.3.2"); !ok {
		t.Errorf("a whole packet of the tunnel's MTU does not arrive: %s", out)
	}
}
