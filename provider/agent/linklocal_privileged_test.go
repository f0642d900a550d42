//go:build privileged

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory/document"
)

// linkLocalSite has no subnet between machines and routers: two routers at one address, on
// links of their own.
const linkLocalSite = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 65010, holdTime: 9s}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"]}
  routers:
    - {name: tor-a, address: "fe80::1%up0", asn: 65001}
    - {name: tor-b, address: "fe80::1%up1", asn: 65002}
  racks:
    - {name: r1, machines: [{name: w1, addresses: [10.1.0.11, "fd01::11"]}]}
    - {name: r2, machines: [{name: w2, addresses: [10.2.0.12, "fd02::12"]}]}
`

// linkLocals joins two ends, of which each has one link-local address, and no other.
func linkLocals(t *testing.T, ns, dev, addr, otherNS, otherDev, otherAddr string) {
	t.Helper()
	in := func(ns, line string) string {
		if ns == "" {
			return line
		}
		return "ip netns exec " + ns + " " + line
	}
	at := ""
	if ns != "" {
		at = " netns " + ns
	}
	sh(t, "ip link add "+dev+at+" type veth peer name "+otherDev+" netns "+otherNS)
	if ns == "" {
		t.Cleanup(func() { sh(t, "ip link del "+dev) })
	}
	for _, end := range [][3]string{{ns, dev, addr}, {otherNS, otherDev, otherAddr}} {
		sh(t, in(end[0], "sysctl -qw net.ipv6.conf."+end[1]+".addr_gen_mode=1"))
		sh(t, in(end[0], "ip -6 addr add "+end[2]+"/64 dev "+end[1]+" nodad"))
		sh(t, in(end[0], "ip link set "+end[1]+" up"))
	}
}

// aSpace makes a network namespace that forwards.
func aSpace(t *testing.T, name string) string {
	t.Helper()
	ns := fmt.Sprintf("plt-agent-%d-%s", os.Getpid(), name)
	sh(t, "ip netns add "+ns)
	t.Cleanup(func() { sh(t, "ip netns del "+ns) })
	sh(t, "ip -n "+ns+" link set lo up")
	sh(t, "ip netns exec "+ns+" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
	return ns
}

// inSpace starts a daemon in a namespace, and returns what kills it.
func inSpace(t *testing.T, ns, name string, args ...string) (kill func()) {
	t.Helper()
	c := exec.Command("ip", append([]string{"netns", "exec", ns, name}, args...)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	t.Cleanup(kill)
	return kill
}

// birdAtLinkLocal is a router that knows the machine at fe80::b on its link down0.
func birdAtLinkLocal(t *testing.T, ns string) (kill func()) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "bird.conf")
	text := `log stderr all;
router id 10.9.0.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol bgp w1 { local as 65001; neighbor fe80::b as 65010; interface "down0"; passive on; hold time 9; error wait time 1, 2;
  ipv4 { extended next hop on; import all; export none; }; ipv6 { import all; export none; }; }
`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return inSpace(t, ns, "bird", "-f", "-c", conf, "-s", filepath.Join(dir, "bird.ctl"), "-P", filepath.Join(dir, "bird.pid"))
}

// frrAtLinkLocal is another one.
func frrAtLinkLocal(t *testing.T, ns string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/run", "plt-agent-frr-") // its user has to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bgpd := `router bgp 65002
 bgp router-id 10.9.0.2
 no bgp ebgp-requires-policy
 neighbor fe80::b remote-as 65010
 neighbor fe80::b interface down0
 neighbor fe80::b passive
 neighbor fe80::b capability extended-nexthop
 address-family ipv6 unicast
  neighbor fe80::b activate
 exit-address-family
`
	for name, text := range map[string]string{"bgpd": bgpd, "zebra": ""} {
		if err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, "chmod 755 "+dir)
	sh(t, "chown -R frr:frrvty "+dir)
	for _, name := range []string{"zebra", "bgpd"} {
		inSpace(t, ns, "/usr/lib/frr/"+name, "-u", "frr", "-g", "frr", "--vty_socket", dir, "-f", filepath.Join(dir, name+".conf"),
			"-i", filepath.Join(dir, name+".pid"), "-z", filepath.Join(dir, "zserv.api"), "-A", "127.0.0.1")
		eventually(t, name+" answers", func() (bool, string) {
			_, err := os.Stat(filepath.Join(dir, name+".vty"))
			return err == nil, dir
		})
	}
}

// TestFabricLeadsThroughRoutersThatOnlyALinkLocalAddressIsKnownOf has pods of two racks reach
// each other in both families through BIRD and FRR, and through FRR alone when BIRD is gone.
func TestFabricLeadsThroughRoutersThatOnlyALinkLocalAddressIsKnownOf(t *testing.T) {
	a, b, far := aSpace(t, "tor-a"), aSpace(t, "tor-b"), aSpace(t, "far")
	linkLocals(t, "", "up0", "fe80::b", a, "down0", "fe80::1")
	linkLocals(t, "", "up1", "fe80::b", b, "down0", "fe80::1")
	linkLocals(t, a, "down1", "fe80::1", far, "up0", "fe80::c")
	linkLocals(t, b, "down1", "fe80::1", far, "up1", "fe80::c")
	for _, line := range []string{
		"ip link set lo up",
		// a pod of each machine, and the machines' own addresses
		"ip addr add 10.244.1.2/32 dev lo", "ip -6 addr add fd00:244:0:1::2/128 dev lo",
		"ip addr add 10.1.0.11/32 dev lo", "ip -6 addr add fd01::11/128 dev lo",
		"ip -n " + far + " addr add 10.244.2.2/32 dev lo", "ip -n " + far + " -6 addr add fd00:244:0:2::2/128 dev lo",
		"ip -n " + far + " -4 route add default nexthop via inet6 fe80::1 dev up0 nexthop via inet6 fe80::1 dev up1",
		"ip -n " + far + " -6 route add default nexthop via fe80::1 dev up0 nexthop via fe80::1 dev up1",
	} {
		sh(t, line)
	}
	t.Cleanup(func() {
		for _, line := range []string{"ip addr del 10.244.1.2/32 dev lo", "ip -6 addr del fd00:244:0:1::2/128 dev lo", "ip addr del 10.1.0.11/32 dev lo", "ip -6 addr del fd01::11/128 dev lo"} {
			sh(t, line)
		}
	})
	// Without this a kernel goes on sending over a link without carrier, or does not, by a hash that is another one after each boot.
	sh(t, "ip netns exec "+far+" sysctl -qw net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv6.conf.all.ignore_routes_with_linkdown=1")
	for _, ns := range []string{a, b} {
		sh(t, "ip -n "+ns+" -4 route add 10.244.2.0/24 via inet6 fe80::c dev down1")
		sh(t, "ip -n "+ns+" -6 route add fd00:244:0:2::/64 via fe80::c dev down1")
	}
	kill := birdAtLinkLocal(t, a)
	frrAtLinkLocal(t, b)
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(linkLocalSite)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(aNode("w1", "10.1.0.11", "fd01::11", "10.244.1.0/24", "fd00:244:0:1::/64"))
	agent := start(t, client, inv, t.TempDir(), "", nil)
	for _, step := range []struct {
		when       string
		has, lacks []string
		through    []string // routers that know the machine's pods
		beforehand func()
	}{
		{"both routers are up", []string{
			"nexthop via inet6 fe80::1 dev up0", "nexthop via inet6 fe80::1 dev up1", "nexthop via fe80::1 dev up0", "nexthop via fe80::1 dev up1",
		}, nil, []string{a, b}, func() {}},
		{"one is gone", []string{"10.244.0.0/16 via inet6 fe80::1 dev up1", "fd00:244::/48 via fe80::1 dev up1"}, []string{"dev up0"}, []string{b}, func() {
			kill()
			sh(t, "ip -n "+a+" link set down1 down") // far hears of it, as it would by its own agent
		}},
	} {
		step.beforehand()
		for _, ns := range step.through {
			eventually(t, ns+" has a way to the pods, when "+step.when, func() (bool, string) {
				got := sh(t, "ip -n "+ns+" route") + sh(t, "ip -n "+ns+" -6 route")
				return strings.Contains(got, "10.244.1.0/24") && strings.Contains(got, "fd00:244:0:1::/64"), got
			})
		}
		eventually(t, "the machine's routes are right when "+step.when, func() (bool, string) {
			got := sh(t, "ip route show proto 114") + sh(t, "ip -6 route show proto 114")
			ok := true
			for _, want := range step.has {
				ok = ok && strings.Contains(got, want)
			}
			for _, not := range step.lacks {
				ok = ok && !strings.Contains(got, not)
			}
			return ok, got + fmt.Sprint(agent.show(t).Unrouted)
		})
		for _, pods := range [][2]string{{"10.244.1.2", "10.244.2.2"}, {"fd00:244:0:1::2", "fd00:244:0:2::2"}} {
			if out, err := exec.Command("ping", "-n", "-c", "3", "-i", "0.2", "-w", "5", "-I", pods[0], pods[1]).CombinedOutput(); err != nil {
				t.Errorf("when %s: %s does not reach %s:\n%s", step.when, pods[0], pods[1], out)
			}
		}
		if un := agent.show(t).Unrouted; len(un) > 0 {
			t.Errorf("when %s: unrouted %v", step.when, un)
		}
	}
}
