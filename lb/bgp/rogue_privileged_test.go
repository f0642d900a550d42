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
// namespace and acts as the variable has it.
const asRogue = "PLINTH_TEST_ROGUE"

func TestRogueProcess(t *testing.T) {
	how := os.Getenv(asRogue)
	if how == "" {
		return // only when started by rogue
	}
	go accept(t, ":1790", how)
	accept(t, ":179", how)
}

// accept handles every connection at an address as a rogue.
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

// rogues holds the ways in which a router misbehaves.
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

// noise returns random bytes.
func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// send writes a message.
func send(c net.Conn, m *gobgp.BGPMessage) {
	if b, err := m.Serialize(); err == nil {
		_, _ = c.Write(b)
	}
}

// handshake establishes a session from the router's side.
func handshake(conn net.Conn) bool {
	msg, err := gobgp.NewBGPOpenMessage(routerASN, 9, netip.MustParseAddr("10.99.0.99"), []gobgp.OptionParameterInterface{
		gobgp.NewOptionParameterCapability([]gobgp.ParameterCapabilityInterface{
			gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_UC), gobgp.NewCapMultiProtocol(gobgp.RF_IPv6_UC), gobgp.NewCapFourOctetASNumber(routerASN),
		}),
	})
	if err != nil {
		return false
	}
	send(conn, msg)
	send(conn, gobgp.NewBGPKeepAliveMessage())
	for range 2 { // its OPEN and KEEPALIVE
		if _, _, err := message(conn); err != nil {
			return false
		}
	}
	go func() {
		for {
			time.Sleep(2 * time.Second)
			if _, err := conn.Write(keepalive()); err != nil {
				return
			}
		}
	}()
	return true
}

// keepalive returns a KEEPALIVE.
func keepalive() []byte { b, _ := gobgp.NewBGPKeepAliveMessage().Serialize(); return b }

// update returns an UPDATE with raw attributes and reachable prefixes.
func update(attrs, nlri []byte) []byte {
	n := 19 + 2 + 2 + len(attrs) + len(nlri)
	data := make([]byte, 0, n)
	for range 16 {
		data = append(data, 0xff)
	}
	data = binary.BigEndian.AppendUint16(data, uint16(n))
	data = append(data, gobgp.BGP_MSG_UPDATE, 0, 0)
	data = binary.BigEndian.AppendUint16(data, uint16(len(attrs)))
	return append(append(data, attrs...), nlri...)
}

// good returns the attributes of an ordinary route.
var good = []byte{
	0x40, 1, 1, 0, // ORIGIN IGP
	0x40, 2, 6, 2, 1, 0, 0, 0xfe, 0x4d, // AS_PATH 65101
	0x40, 3, 4, 10, 99, 1, 2, // NEXT_HOP
}

// fullTable announces more routes than the prefix limit.
func fullTable(conn net.Conn, _ *rand.Rand) {
	if !handshake(conn) {
		return
	}
	for i := 0; i < 1_000_000; {
		var nlri []byte
		for range 800 {
			nlri = append(nlri, 24, 20+byte(i>>16), byte(i>>8), byte(i))
			i++
		}
		if _, err := conn.Write(update(good, nlri)); err != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, conn)
}

// ourOwnRoutes sends a default route, and our own VIP with a better path.
func ourOwnRoutes(c net.Conn, _ *rand.Rand) {
	if handshake(c) {
		_, _ = c.Write(update(good, []byte{0, 32, 203, 0, 113, 10, 24, 198, 51, 100}))
		_, _ = io.Copy(io.Discard, c)
	}
}

// good6 returns the attributes of an ordinary route of IPv6, with the route in them.
var good6 = append([]byte{
	0x40, 1, 1, 0, // ORIGIN IGP
	0x40, 2, 6, 2, 1, 0, 0, 0xfe, 0x4d, // AS_PATH 65101
	0x80, 14, 38, 0, 2, 1, 16, // MP_REACH_NLRI
	0xfd, 0x99, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	0, 128,
}, netip.MustParseAddr("2001:db8:113::10").AsSlice()...)

// malformed sends messages that are nearly valid, until the connection is closed.
func malformed(conn net.Conn, rng *rand.Rand) {
	if !handshake(conn) {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for range 2000 {
		if _, err := conn.Write(corrupt(rng)); err != nil {
			return
		}
	}
}

// unknown sends one message of a type that does not exist.
func unknown(c net.Conn, _ *rand.Rand) {
	if handshake(c) {
		b := keepalive()
		b[18] = 77
		_, _ = c.Write(b)
		_, _ = io.Copy(io.Discard, c)
	}
}

// corrupt returns a message that is nearly valid.
func corrupt(rng *rand.Rand) []byte {
	data := update(good, []byte{32, 203, 0, 113, 10})
	if rng.IntN(2) == 0 {
		data = update(good6, nil)
	}
	switch rng.IntN(8) {
	case 0: // a kind that does not exist
		data[18] = byte(rng.Uint32())
	case 1: // attributes of noise
		return update(noise(rng, rng.IntN(200)), []byte{32, 203, 0, 113, 10})
	case 2: // the OPEN once more
		m, _ := gobgp.NewBGPOpenMessage(routerASN, 9, netip.MustParseAddr("10.99.0.99"), nil)
		data, _ = m.Serialize()
	case 3: // an attribute of any kind, any length and noise
		return update(append([]byte{byte(rng.Uint32()), byte(rng.IntN(45)), byte(rng.IntN(40))}, noise(rng, rng.IntN(40))...), nil)
	default: // some bytes behind the length, so that the next message is found
		for range 1 + rng.IntN(3) {
			data[21+rng.IntN(len(data)-21)] = byte(rng.Uint32())
		}
	}
	return data
}

// foreign lists the routes in the tables of a speaker that are not its own.
func foreign(t testing.TB, s *Speaker) (all []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		must(t, session.do(t.Context(), func() error {
			for _, f := range []gobgp.Family{gobgp.RF_IPv4_UC, gobgp.RF_IPv6_UC} {
				if session.server == nil {
					return nil
				}
				if err := session.server.bgp.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f},
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
	router := newRouter(t).rogue("our own routes")
	speaker := newSpeaker(t)
	c := configOf(plan(router.session4(), "203.0.113.10/32"))
	c.Sessions[0].Session.Learn = inventory.LearnDefault
	must(t, speaker.Set(t.Context(), c))
	eventually(t, 10*time.Second, "one route is accepted", func() (bool, string) {
		st := state(t, speaker, router)
		return st.Accepted == 1, fmt.Sprint(st)
	})
	never(t, time.Second, "more was accepted", func() (bool, string) {
		got := foreign(t, speaker)
		return len(got) != 1 || got[0] != "0.0.0.0/0 of "+router.Addr4.String(), fmt.Sprint(got)
	})
	if st := state(t, speaker, router); fmt.Sprint(st.Announced) != "[203.0.113.10/32]" {
		t.Errorf("announced %v", st.Announced)
	}
}

// state returns the state of the session with a router.
func state(t testing.TB, s *Speaker, tor *router) SessionState {
	t.Helper()
	for _, st := range s.State(context.Background()) {
		if st.Router == tor.ns {
			return st
		}
	}
	t.Fatalf("no session with %s", tor.ns)
	return SessionState{}
}
