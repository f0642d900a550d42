//go:build privileged && timing

package bgp

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// forger sends BFD packets as the router, from its address and in its namespace.
func (r *router) forger() *net.UDPConn {
	r.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	must(r.t, err)
	defer own.Close()
	there, err := os.Open("/run/netns/" + r.ns)
	must(r.t, err)
	defer there.Close()
	must(r.t, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: r.Addr4.AsSlice(), Port: 60000}, &net.UDPAddr{IP: r.Local4.AsSlice(), Port: 3784})
	must(r.t, unix.Setns(int(own.Fd()), unix.CLONE_NEWNET)) // before anything else
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// sendTTL sends a packet with a TTL.
func sendTTL(t testing.TB, conn *net.UDPConn, data []byte, ttl int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	must(t, err)
	var set error
	must(t, raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl) }))
	must(t, set)
	_, err = conn.Write(data)
	must(t, err)
}

// TestAPacketWithAnyFieldForgedEndsNoSession: each packet would end the session but for the one
// field that is wrong in it, as the last one shows, in which none is.
func TestAPacketWithAnyFieldForgedEndsNoSession(t *testing.T) {
	t.Parallel()
	router := newRouter(t).frr(neighbour{lines: "bfd\nbfd profile fast\n", daemons: []string{"bfdd"}, only4: true})
	speaker := newSpeaker(t)
	must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.session4(), "203.0.113.10/32")))))
	bfdUp(t, speaker)
	eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(1))
	router.holds(5*time.Second, map[string]string{"203.0.113.10": router.Local4.String()})
	var peers []struct {
		Mine  uint32 `json:"id"`
		Yours uint32 `json:"remote-id"`
	}
	must(t, json.Unmarshal([]byte(router.ask("show bfd peers json")), &peers))
	if len(peers) != 1 || peers[0].Mine == 0 || peers[0].Yours == 0 {
		t.Fatal(peers)
	}
	const down, pollFinal, authenticated, multipoint = 1 << 6, 3 << 4, 1 << 2, 1
	end := []byte{1<<5 | 3, down, 3, 24} // version 1, the neighbor signaled that the session is down
	end = binary.BigEndian.AppendUint32(end, peers[0].Mine)
	end = binary.BigEndian.AppendUint32(end, peers[0].Yours)
	end = append(end, 0, 0x0f, 0x42, 0x40, 0, 0x0f, 0x42, 0x40, 0, 0, 0, 0) // a second each, no echo
	change := func(at int, to ...byte) []byte { b := slices.Clone(end); copy(b[at:], to); return b }
	forged := map[string][]byte{
		"version 0": change(0, 3), "version 2": change(0, 2<<5|3), "version 7": change(0, 7<<5|3),
		"poll and final": change(1, down|pollFinal), "authenticated": change(1, down|authenticated), "multipoint": change(1, down|multipoint),
		"multiplier 0": change(2, 0), "a length of nothing": change(3, 0), "a length below the least": change(3, 23), "a length above the packet's": change(3, 25),
		"cut": end[:23], "empty": nil, "my discriminator 0": change(4, 0, 0, 0, 0), "another session's discriminator": change(8, ^end[8], end[9], end[10], end[11]),
		"state init, for no session": change(1, 2<<6, 3, 24, 0, 0, 0, 9, 0, 0, 0, 0), "state up, for no session": change(1, 3<<6, 3, 24, 0, 0, 0, 9, 0, 0, 0, 0),
	}
	conn := router.forger()
	lost := router.watch()
	unmoved := func() (bool, string) {
		st := speaker.State(t.Context())[0]
		return !st.Up || st.BFD != "up" || st.Losses > 0 || lost() > 0, fmt.Sprint(st, " BFD ", st.BFD)
	}
	for what, b := range forged {
		for range 10 {
			sendTTL(t, conn, b, 255)
		}
		never(t, 100*time.Millisecond, what+" ended a session", unmoved)
	}
	for _, ttl := range []int{254, 64, 1} {
		sendTTL(t, conn, end, ttl)
		never(t, 100*time.Millisecond, fmt.Sprintf("a TTL of %d ended a session", ttl), unmoved)
	}
	never(t, 2*time.Second, "a session ended later", unmoved)
	sendTTL(t, conn, end, 255)
	eventually(t, 5*time.Second, "a packet without a mistake ends the session", func() (bool, string) {
		st := speaker.State(t.Context())[0]
		return st.Losses == 1, fmt.Sprint(st)
	})
}
