//go:build privileged

package kernel

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

// documented is the block of a page that begins with a line.
func documented(t *testing.T, page, first string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "\n"+first+"\n")
	block, _, ended := strings.Cut(rest, "\n```")
	if !found || !ended {
		t.Fatalf("%s has no block that begins with %q", page, first)
	}
	return first + "\n" + block + "\n"
}

// forged is a VXLAN packet to the machine with the hardware address 02:72:0a:01:00:0b: UDP from
// 10.244.3.66 to port 9999 of its pod 10.244.1.2.
func forged(text string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 9998)
	udp = binary.BigEndian.AppendUint16(udp, 9999)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(text)))
	udp = append(append(udp, 0, 0), text...) // no checksum
	ip := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 244, 3, 66, 10, 244, 1, 2}
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(udp)))
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
	frame := append([]byte{0x02, 0x72, 10, 1, 0, 11, 0x02, 0x72, 10, 2, 0, 13, 0x08, 0x00}, append(ip, udp...)...)
	return append([]byte{8, 0, 0, 0, 0, 0, byte(inventory.DefaultVXLAN.VNI), 0}, frame...)
}

// sends writes one UDP packet.
func (h host) sends(to string, packet []byte) {
	h.Helper()
	h.inside(func() {
		c, err := net.Dial("udp", to)
		if err == nil {
			_, err = c.Write(packet)
			_ = c.Close()
		}
		if err != nil {
			h.Error(err)
		}
	})
}

// hears returns what comes to UDP port 9999, until a packet says "end".
func (h host) hears() (heard func() []string) {
	h.Helper()
	var c net.PacketConn
	h.inside(func() {
		var err error
		if c, err = net.ListenPacket("udp4", ":9999"); err != nil {
			h.Error(err)
		}
	})
	if c == nil {
		h.Fatalf("nobody listens in %s", h.name)
	}
	h.Cleanup(func() { _ = c.Close() })
	return func() (all []string) {
		h.Helper()
		b := make([]byte, 1500)
		for {
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			n, _, err := c.ReadFrom(b)
			if err != nil {
				h.Fatalf("no end was heard: %v; so far %v", err, all)
			}
			if string(b[:n]) == "end" {
				return all
			}
			all = append(all, string(b[:n]))
		}
	}
}

// TestTheDocumentedRulesKeepForgedPacketsOutOfTheTunnel has pods send what only machines are
// to send: to their own machine, and to another one, there masqueraded as their machine.
func TestTheDocumentedRulesKeepForgedPacketsOutOfTheTunnel(t *testing.T) {
	nodes, pods, views := overlaySite(t)
	inEach(t, nodes, views, true)
	hears := pods[0].hears()
	masquerade := exec.Command("ip", "netns", "exec", nodes[2].name, "nft", "-f", "-")
	masquerade.Stdin = strings.NewReader("table ip pods {\n chain post { type nat hook postrouting priority 101\n ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade\n }\n}\n")
	if out, err := masquerade.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	forge := func() []string {
		pods[0].sends("10.1.0.11:4789", forged("of its own machine"))
		pods[2].sends("10.1.0.11:4789", forged("of another machine"))
		if !pods[2].pings(addrs("10.244.1.2")[0]) {
			t.Error("the tunnel carries nothing")
		}
		pods[2].sends("10.244.1.2:9999", []byte("end")) // after what it forged, by the same way
		return hears()
	}
	if got := forge(); len(got) != 2 {
		t.Fatalf("without the rules %v came through, want both: the test shows nothing", got)
	}
	rules := strings.NewReplacer("eth0", "up0", "10.10.1.0/24, 10.10.2.0/24", "10.1.0.0/24, 10.2.0.0/24").Replace(documented(t, "../../docs/reference/agent.md", "table inet plinth-tunnel {"))
	for _, h := range nodes {
		nft := exec.Command("ip", "netns", "exec", h.name, "nft", "-f", "-")
		nft.Stdin = strings.NewReader(rules)
		if out, err := nft.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v\n%s\n%s", err, out, rules)
		}
	}
	if got := forge(); len(got) != 0 {
		t.Errorf("came through: %v", got)
	}
}
