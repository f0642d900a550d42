//go:build privileged

package bgp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
)

// asRogue makes this binary a router that misbehaves: it runs in a router's
// namespace and does what the variable says.
const asRogue = "PLINTH_TEST_ROGUE"

func TestRogueProcess(t *testing.T) {
	how := os.Getenv(asRogue)
	if how == "" {
		return // only when started by rogue
	}
	go accept(t, ":1790", how)
	accept(t, ":179", how)
}

func accept(t *testing.T, at, how string) {
	l, err := net.Listen("tcp", at)
	must(t, err)
	for seed := uint64(0); ; seed++ {
		c, err := l.Accept()
		must(t, err)
		go func() {
			rogues[how](c, rand.New(rand.NewPCG(seed, 1)))
			c.Close()
		}()
	}
}

// rogue starts such a router.
func (r *router) rogue(how string) *router {
	r.t.Helper()
	exe, err := os.Executable()
	must(r.t, err)
	// It is in the namespaces already, as an agent process is.
	r.daemonize("env", asAgent+"=rogue", asRogue+"="+how, exe, "-test.run=^TestRogueProcess$", "-test.timeout=5m")
	return r
}

var rogues = map[string]func(net.Conn, *rand.Rand){
	"a full table":       fullTable,
	"our own routes":     ourOwnRoutes,
	"malformed messages": malformed,
	"noise":              func(c net.Conn, r *rand.Rand) { _, _ = c.Write(noise(r, 4096)); _, _ = io.CopyN(io.Discard, c, 1) },
	"silence":            func(c net.Conn, _ *rand.Rand) { _, _ = io.Copy(io.Discard, c) },
	"an answer": func(c net.Conn, _ *rand.Rand) {
		if handshake(c) {
			_, _ = io.Copy(io.Discard, c)
		}
	},
	"a close at once": func(net.Conn, *rand.Rand) {},
	"another protocol": func(c net.Conn, _ *rand.Rand) {
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
		_, _ = io.Copy(io.Discard, c)
	},
	"an unknown message":  unknown,
	"a NOTIFICATION only": func(c net.Conn, _ *rand.Rand) { send(c, gobgp.NewBGPNotificationMessage(6, 5, nil)) },
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func send(c net.Conn, m *gobgp.BGPMessage) {
	if b, err := m.Serialize(); err == nil {
		_, _ = c.Write(b)
	}
}

// handshake brings a session up from the router's side.
func handshake(c net.Conn) bool {
	m, err := gobgp.NewBGPOpenMessage(routerASN, 9, netip.MustParseAddr("10.99.0.99"), []gobgp.OptionParameterInterface{
		gobgp.NewOptionParameterCapability([]gobgp.ParameterCapabilityInterface{
			gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_UC), gobgp.NewCapMultiProtocol(gobgp.RF_IPv6_UC), gobgp.NewCapFourOctetASNumber(routerASN),
		}),
	})
	if err != nil {
		return false
	}
	send(c, m)
	send(c, gobgp.NewBGPKeepAliveMessage())
	for range 2 { // its OPEN and KEEPALIVE
		if _, _, err := message(c); err != nil {
			return false
		}
	}
	go func() {
		for {
			time.Sleep(2 * time.Second)
			if _, err := c.Write(keepalive()); err != nil {
				return
			}
		}
	}()
	return true
}

func keepalive() []byte { b, _ := gobgp.NewBGPKeepAliveMessage().Serialize(); return b }

// update is an UPDATE with raw attributes and reachable prefixes.
func update(attrs, nlri []byte) []byte {
	n := 19 + 2 + 2 + len(attrs) + len(nlri)
	b := make([]byte, 0, n)
	for range 16 {
		b = append(b, 0xff)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = append(b, gobgp.BGP_MSG_UPDATE, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(attrs)))
	return append(append(b, attrs...), nlri...)
}

// good are the attributes of an ordinary route.
var good = []byte{
	0x40, 1, 1, 0, // ORIGIN IGP
	0x40, 2, 6, 2, 1, 0, 0, 0xfe, 0x4d, // AS_PATH 65101
	0x40, 3, 4, 10, 99, 1, 2, // NEXT_HOP
}

func fullTable(c net.Conn, _ *rand.Rand) {
	if !handshake(c) {
		return
	}
	for i := 0; i < 1_000_000; {
		var nlri []byte
		for range 800 {
			nlri = append(nlri, 24, 20+byte(i>>16), byte(i>>8), byte(i))
			i++
		}
		if _, err := c.Write(update(good, nlri)); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, c)
}

// ourOwnRoutes sends a default route, and our own VIP with a better path.
func ourOwnRoutes(c net.Conn, _ *rand.Rand) {
	if handshake(c) {
		_, _ = c.Write(update(good, []byte{0, 32, 203, 0, 113, 10, 24, 198, 51, 100}))
		_, _ = io.Copy(io.Discard, c)
	}
}

// good6 are those of an ordinary route of IPv6, with the route in them.
var good6 = append([]byte{
	0x40, 1, 1, 0, // ORIGIN IGP
	0x40, 2, 6, 2, 1, 0, 0, 0xfe, 0x4d, // AS_PATH 65101
	0x80, 14, 38, 0, 2, 1, 16, // MP_REACH_NLRI
	0xfd, 0x99, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0, 128,
}, netip.MustParseAddr("2001:db8:113::10").AsSlice()...)

// malformed sends messages that are nearly right, until it is cut off.
func malformed(c net.Conn, r *rand.Rand) {
	if !handshake(c) {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	for range 2000 {
		if _, err := c.Write(corrupt(r)); err != nil {
			return
		}
	}
}

// unknown sends one message of a kind that does not exist.
func unknown(c net.Conn, _ *rand.Rand) {
	if handshake(c) {
		b := keepalive()
		b[18] = 77
		_, _ = c.Write(b)
		_, _ = io.Copy(io.Discard, c)
	}
}

// corrupt makes a message that is nearly right.
func corrupt(r *rand.Rand) []byte {
	b := update(good, []byte{32, 203, 0, 113, 10})
	if r.IntN(2) == 0 {
		b = update(good6, nil)
	}
	switch r.IntN(8) {
	case 0: // a kind that does not exist
		b[18] = byte(r.Uint32())
	case 1: // attributes of noise
		return update(noise(r, r.IntN(200)), []byte{32, 203, 0, 113, 10})
	case 2: // the OPEN once more
		m, _ := gobgp.NewBGPOpenMessage(routerASN, 9, netip.MustParseAddr("10.99.0.99"), nil)
		b, _ = m.Serialize()
	case 3: // an attribute of any kind, any length and noise
		return update(append([]byte{byte(r.Uint32()), byte(r.IntN(45)), byte(r.IntN(40))}, noise(r, r.IntN(40))...), nil)
	default: // some bytes behind the length, so that the next message is found
		for range 1 + r.IntN(3) {
			b[21+r.IntN(len(b)-21)] = byte(r.Uint32())
		}
	}
	return b
}

// foreign lists what the tables of a speaker hold that is not its own.
func foreign(t testing.TB, s *Speaker) (all []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		must(t, x.do(t.Context(), func() error {
			for _, f := range []gobgp.Family{gobgp.RF_IPv4_UC, gobgp.RF_IPv6_UC} {
				if x.server == nil {
					return nil
				}
				if err := x.server.bgp.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f},
					func(nlri gobgp.NLRI, ps []*apiutil.Path) {
						for _, p := range ps {
							if p.PeerAddress.IsValid() {
								all = append(all, nlri.String()+" of "+p.PeerAddress.String())
							}
						}
					}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return all
}

func TestADefaultRouteIsLearnedWhereItIsWantedAndNothingElse(t *testing.T) {
	r := newRouter(t).rogue("our own routes")
	s := speaker(t)
	c := config(plan(r.session4(), "203.0.113.10/32"))
	c.Sessions[0].Session.Learn = inventory.LearnDefault
	must(t, s.Set(t.Context(), c))
	eventually(t, 10*time.Second, "one route is accepted", func() (bool, string) {
		st := state(t, s, r)
		return st.Accepted == 1, fmt.Sprint(st)
	})
	never(t, time.Second, "more was accepted", func() (bool, string) {
		got := foreign(t, s)
		return len(got) != 1 || got[0] != "0.0.0.0/0 of "+r.Addr4.String(), fmt.Sprint(got)
	})
	if st := state(t, s, r); fmt.Sprint(st.Announced) != "[203.0.113.10/32]" {
		t.Errorf("announced %v", st.Announced)
	}
}

func state(t testing.TB, s *Speaker, r *router) SessionState {
	t.Helper()
	for _, st := range s.State(context.Background()) {
		if st.Router == r.ns {
			return st
		}
	}
	t.Fatalf("no session with %s", r.ns)
	return SessionState{}
}
