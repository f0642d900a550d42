//go:build privileged

package kernel

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/routing"
)

// pinging sends fifty echo requests a second until it is asked for its summary.
func pinging(h host, addr string) (summary func() string) {
	h.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.name, "ping", "-n", "-i", "0.02", addr)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	done := false
	summary = func() string {
		if !done {
			done = true
			_ = cmd.Process.Signal(syscall.SIGINT)
			_ = cmd.Wait()
		}
		return out.String()[max(0, out.Len()-200):]
	}
	h.Cleanup(func() { summary() })
	return summary
}

// TestThePortAndNetworkOfTheTunnelChangeWithoutALostPacket has each machine take each step at
// another moment than the others, as it is when they hear of an edit.
func TestThePortAndNetworkOfTheTunnelChangeWithoutALostPacket(t *testing.T) {
	nodes, pods, views := overlaySite(t)
	tabs := make([]*Table, len(nodes))
	apply := func(i int, sends, also inventory.VXLAN) {
		t.Helper()
		nodes[i].inside(func() {
			v := views[i]
			v.VXLAN, v.AlsoVXLAN = sends, also
			plan := routing.Plan(v)
			if err := tabs[i].SetTunnel(context.Background(), plan.Tunnel); err != nil {
				t.Error(err)
			}
			set(t, tabs[i], plan.Routes)
		})
	}
	old, none := inventory.DefaultVXLAN, inventory.VXLAN{}
	for i := range nodes {
		tabs[i] = NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
		t.Cleanup(tabs[i].Close)
		apply(i, old, none)
	}
	if !pods[0].pings(addrs("10.244.3.2")[0]) || !pods[2].pings(addrs("fd00:244:0:1::2")[0]) {
		t.Fatal("the pods do not reach each other")
	}
	for _, now := range []inventory.VXLAN{{Port: 8472, VNI: 114}, {Port: 8472, VNI: 77}, {Port: 14789, VNI: 4096}, inventory.DefaultVXLAN} {
		flows := map[string]func() string{
			"IPv4": pinging(pods[0], "10.244.3.2"), "IPv6": pinging(pods[2], "fd00:244:0:1::2"), "back": pinging(pods[2], "10.244.2.2"),
		}
		for _, step := range [][2]inventory.VXLAN{{old, now}, {now, old}, {now, none}} {
			for i := range nodes {
				apply(i, step[0], step[1])
				<-time.After(150 * time.Millisecond) // in which the others are behind
			}
		}
		for name, summary := range flows {
			if got := summary(); !strings.Contains(got, " 0% packet loss") {
				t.Errorf("to %+v: %s:\n%s", now, name, got)
			}
		}
		old = now
	}
	for i, h := range nodes {
		if got := h.ip("-d link show type vxlan"); !strings.Contains(got, "plinth-vxlan:") || strings.Contains(got, "plinth-vxlan-2") || !strings.Contains(got, "dstport 4789") {
			t.Errorf("after the last change:\n%s", got)
		}
		apply(i, old, inventory.VXLAN{Port: 8472, VNI: 114})
		if got := h.ip("-d link show type vxlan"); !strings.Contains(got, "plinth-vxlan-2:") || !strings.Contains(got, "dstport 8472") {
			t.Errorf("in the middle of a change:\n%s", got)
		}
		h.inside(func() {
			if err := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric}).Clear(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if got := h.ip("link show type vxlan"); got != "" {
			t.Errorf("cleaning up in the middle of a change leaves\n%s", got)
		}
	}
}

// TestADeviceThatHasTheTunnelsPortIsNamed beside what others make: the kernel shares a port
// among devices that agree on all flags but the network.
func TestADeviceThatHasTheTunnelsPortIsNamed(t *testing.T) {
	uplink(t)
	for _, tt := range []struct{ other, want string }{
		{"id 4096 dstport 4789 local 10.1.0.11 nolearning", ""},
		{"id 4096 dstport 4789 local 10.1.0.11 nolearning gbp", "UDP port 4789 is that of VXLAN device other (VNI 4096): set podNetwork.vxlan.port "},
		{"dstport 4789 external", "UDP port 4789 is that of VXLAN device other (of any VNI): set podNetwork.vxlan.port "},
		{"id 7 dstport 4789 udp6zerocsumrx", "UDP port 4789 is that of VXLAN device other (VNI 7): set podNetwork.vxlan.port "},
		{"id 114 dstport 4789 local 10.1.0.11 nolearning", "VNI 114 at UDP port 4789 is that of VXLAN device other (VNI 114): set podNetwork.vxlan.vni "},
	} {
		t.Run(tt.other, func(t *testing.T) {
			ip(t, "link add other type vxlan "+tt.other)
			t.Cleanup(func() { ip(t, "link del other") })
			ip(t, "link set other up")
			tab := table(t)
			err := tab.SetTunnel(context.Background(), endOfATunnel())
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			elsewhere := endOfATunnel()
			elsewhere.VXLAN = inventory.VXLAN{Port: 8472, VNI: 115}
			if err := tab.SetTunnel(context.Background(), elsewhere); err != nil {
				t.Errorf("what it says to set does not help: %v", err)
			}
			if got := ip(t, "link show type vxlan up"); !strings.Contains(got, "plinth-vxlan:") || !strings.Contains(got, "other:") {
				t.Errorf("the two devices are not there side by side:\n%s", got)
			}
		})
	}
}

func TestATunnelThatCannotGetItsNextPortKeepsTheOneThatItHas(t *testing.T) {
	uplink(t)
	ip(t, "link add other type vxlan dstport 8472 external")
	t.Cleanup(func() { ip(t, "link del other") })
	ip(t, "link set other up")
	tab := table(t)
	mustSetTunnel(t, tab, endOfATunnel())
	next := endOfATunnel()
	next.Also = inventory.VXLAN{Port: 8472, VNI: 114}
	next.Peers = append(next.Peers, routing.Peer{Inner: addrs("10.244.4.0")[0], MAC: routing.MAC{2, 0x72, 10, 2, 0, 14}, Outer: addrs("10.2.0.14")[0]})
	if err := tab.SetTunnel(context.Background(), next); err == nil || !strings.Contains(err.Error(), "UDP port 8472 is that of VXLAN device other") {
		t.Errorf("got %v", err)
	}
	if got := ip(t, "-d link show plinth-vxlan") + ip(t, "neigh show dev plinth-vxlan"); !strings.Contains(got, "UP") || !strings.Contains(got, "dstport 4789") || !strings.Contains(got, "10.244.4.0") {
		t.Errorf("the tunnel that there is does not go on:\n%s", got)
	}
}
