//go:build privileged

package bgp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

// pace is the profile of both ends: slow enough for a busy machine, where a test is
// not about speed.
var pace = inventory.BFDProfile{Name: "calm", Interval: 300 * time.Millisecond, Multiplier: 4}

// fast is the BFD profile of measurements.
var fast = inventory.BFDProfile{Name: "fast", Interval: 100 * time.Millisecond, Multiplier: 3}

// withBFD starts a router that has BFD with us.
func (r *router) withBFD(dialect string, lines string) *router {
	if dialect == "bird" {
		ms := pace.Interval.Milliseconds()
		return r.bird(neighbour{lines: lines, top: fmt.Sprintf("protocol bfd { interface \"*\" { min rx interval %d ms; min tx interval %d ms; multiplier %d; }; }\n", ms, ms, pace.Multiplier)})
	}
	r.frr(neighbour{lines: "bfd profile fast\n" + lines, daemons: []string{"bfdd"}})
	return r
}

// withFastBFD turns BFD on.
func withFastBFD(c SessionConfig) SessionConfig {
	c.Session.BFD = pace
	return c
}

// bfdUp waits until BFD is up on every session.
func bfdUp(t testing.TB, s *Speaker) {
	t.Helper()
	eventually(t, 15*time.Second, "BFD is up", func() (bool, string) {
		for _, st := range s.State(t.Context()) {
			if st.BFD != "up" || !st.Up {
				return false, fmt.Sprint(st, " BFD ", st.BFD)
			}
		}
		return true, ""
	})
}

// dropPackets drops every packet on the router's end, without any sign to either side.
func (r *router) dropPackets() {
	r.nft("add table netdev cut", "add chain netdev cut in { type filter hook ingress device eth0 priority 0; policy drop; }",
		"add table inet cut", "add chain inet cut out { type filter hook output priority 0; policy drop; }")
}

// passPackets ends dropPackets.
func (r *router) passPackets() { r.nft("delete table netdev cut", "delete table inet cut") }

// nft runs lines of nftables in the router's namespace.
func (r *router) nft(lines ...string) {
	r.t.Helper()
	run(r.t, "ip", "netns", "exec", r.ns, "nft", strings.Join(lines, "; "))
}

// dropBFD drops the BFD packets of both ends for which a match holds. TCP is left alone.
func (r *router) dropBFD(match string) {
	r.t.Helper()
	r.nft("add table netdev cutbfd", "add chain netdev cutbfd in { type filter hook ingress device eth0 priority 0; }",
		"add rule netdev cutbfd in udp dport { 3784, 4784 } "+match+" drop",
		"add table inet cutbfd", "add chain inet cutbfd out { type filter hook output priority 0; }", "add rule inet cutbfd out udp dport { 3784, 4784 } "+match+" drop")
}

// passBFD ends dropBFD.
func (r *router) passBFD() { r.nft("delete table netdev cutbfd", "delete table inet cutbfd") }

// startBFDD starts FRR's bfdd.
func (r *router) startBFDD() {
	conf := filepath.Join(r.dir, "bfdd.conf")
	must(r.t, os.WriteFile(conf, fmt.Appendf(nil, "log stdout debugging\nbfd\n profile fast\n  transmit-interval %[1]d\n  receive-interval %[1]d\n  detect-multiplier %[2]d\n !\n!\n", pace.Interval.Milliseconds(), pace.Multiplier), 0o644))
	r.daemonize("/usr/lib/frr/bfdd", "-u", "frr", "-g", "frr", "--vty_socket", r.dir, "-f", conf, "-i", filepath.Join(r.dir, "bfdd.pid"),
		"-z", filepath.Join(r.dir, "zserv.api"), "-A", "127.0.0.1", "--bfdctl", filepath.Join(r.dir, "bfdd.sock"))
}
