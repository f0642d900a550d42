//go:build privileged

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/routing"
)

const streamFor = time.Second // each measurement of a throughput

// BenchmarkThroughput sends one TCP stream from a pod to a pod of another rack: through
// the routers (fabric), through our tunnel (overlay), and through a VXLAN device that
// was set up by hand with the same MTU, in turn. It reports the medians in Gbit/s.
func BenchmarkThroughput(b *testing.B) {
	nodes, pods, views := overlaySite(b)
	far := 2 // of the other rack
	ways := []struct {
		name string
		set  func()
	}{
		{"fabric", func() { routeByHand(nodes, views) }},
		{"by-hand", func() { vxlanByHand(nodes, views) }},
		{"overlay", func() { inEach(b, nodes, views, true) }},
	}
	rates := map[string][]float64{}
	for b.Loop() {
		for _, w := range ways {
			w.set()
			if !pods[0].pings(views[far].Self.PodCIDRs[0].Addr().Next().Next()) {
				b.Fatal(w.name, "carries nothing")
			}
			rates[w.name] = append(rates[w.name], throughput(b, pods[0], pods[far], views[far].Self.PodCIDRs[0].Addr().Next().Next().String()))
			undo(b, nodes, views)
		}
	}
	for _, w := range ways {
		b.ReportMetric(medianOf(rates[w.name]), w.name+"-Gbit/s")
	}
	for _, than := range []string{"by-hand", "fabric"} {
		var ratios []float64
		for i, r := range rates["overlay"] {
			ratios = append(ratios, r/rates[than][i])
		}
		b.ReportMetric(medianOf(ratios), "overlay/"+than)
	}
}

func medianOf(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// inEach applies the plan of each node, or nothing at all.
func inEach(t testing.TB, nodes []host, views []routing.View, planned bool) {
	t.Helper()
	for i, h := range nodes {
		h.inside(func() {
			tab := NewTable(Options{Protocol: DefaultProtocol, Metric: DefaultMetric})
			defer tab.Close()
			if !planned {
				if err := tab.Clear(context.Background()); err != nil {
					t.Error(err)
				}
				return
			}
			plan := routing.Plan(views[i])
			if err := tab.SetTunnel(context.Background(), plan.Tunnel); err != nil {
				t.Error(err)
			}
			set(t, tab, plan.Routes)
		})
	}
}

// routeByHand gives the router between the racks a route to each node's pods, as BGP would.
func routeByHand(nodes []host, views []routing.View) {
	core := coreOf(nodes)
	for _, v := range views {
		core.ip(fmt.Sprintf("route replace %v via %v", v.Self.PodCIDRs[0], v.Self.Addresses[0]))
	}
}

func coreOf(nodes []host) host {
	return host{nodes[0].TB, strings.TrimSuffix(nodes[0].name, "a") + "core"}
}

// vxlanByHand does what people do with iproute2.
func vxlanByHand(nodes []host, views []routing.View) {
	for i, h := range nodes {
		h.ip(fmt.Sprintf("link add hand0 type vxlan id 99 dstport 4789 local %v nolearning udpcsum", views[i].Self.Addresses[0]))
		h.ip("link set hand0 mtu 1450 up")
		h.ip(fmt.Sprintf("link set hand0 address 02:99:00:00:00:%02x", i))
		h.ip(fmt.Sprintf("addr add %v/32 dev hand0", views[i].Self.PodCIDRs[0].Addr()))
		for j, v := range views {
			if i == j {
				continue
			}
			inner := v.Self.PodCIDRs[0].Addr()
			h.must("bridge", "fdb", "append", fmt.Sprintf("02:99:00:00:00:%02x", j), "dev", "hand0", "dst", v.Self.Addresses[0].String())
			h.ip(fmt.Sprintf("neigh replace %v lladdr 02:99:00:00:00:%02x dev hand0 nud permanent", inner, j))
			h.ip(fmt.Sprintf("route replace %v via %v dev hand0 onlink", v.Self.PodCIDRs[0], inner))
		}
	}
}

// undo takes all of these ways away.
func undo(t testing.TB, nodes []host, views []routing.View) {
	inEach(t, nodes, views, false)
	core := coreOf(nodes)
	for _, v := range views {
		core.run("ip", "route", "del", v.Self.PodCIDRs[0].String())
	}
	for _, h := range nodes {
		h.run("ip", "link", "del", "hand0")
	}
}

// throughput is how much one TCP stream carries, in Gbit/s.
func throughput(b *testing.B, from, to host, address string) float64 {
	b.Helper()
	var l net.Listener
	var err error
	to.inside(func() { l, err = net.Listen("tcp4", ":5001") })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	received := make(chan int64, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer func() { _ = conn.Close() }()
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 1<<20))
		received <- n
	}()
	var conn net.Conn
	from.inside(func() { conn, err = net.Dial("tcp4", net.JoinHostPort(address, "5001")) })
	if err != nil {
		b.Fatal(err)
	}
	begun, block := time.Now(), make([]byte, 1<<20)
	_ = conn.SetWriteDeadline(begun.Add(streamFor))
	for err == nil {
		_, err = conn.Write(block)
	}
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		b.Fatal(err)
	}
	_ = conn.Close()
	n := <-received
	return float64(n) * 8 / time.Since(begun).Seconds() / 1e9
}
