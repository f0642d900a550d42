package bgp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/wait"
)

// listener is a router of the test's own on the loopback, which offers some capabilities.
type listener struct {
	*net.TCPListener
	caps []gobgp.ParameterCapabilityInterface
	hold uint16 // seconds

	mu      sync.Mutex
	conn    net.Conn        // the last one; nil: none
	opens   [][]byte        // of this machine's, without headers
	rib     map[string]bool // prefixes that were announced over the last connection, and not withdrawn
	updates int             // that came, over all connections
}

// listen starts a listener at an address, which ends with the test.
func listen(t *testing.T, addr netip.Addr, caps ...gobgp.ParameterCapabilityInterface) *listener {
	t.Helper()
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		t.Fatal(err)
	}
	router := &listener{TCPListener: tcp, caps: caps, hold: 9}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); router.talk(c) })
		}
	})
	t.Cleanup(func() {
		tcp.Close()
		router.offer()
		wg.Wait()
	})
	return router
}

// session returns a session of this machine with the router.
func (l *listener) session() inventory.Session {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	s := sessionTo(at.Addr().String())
	s.Port, s.Local, s.NextHop4, s.NextHop6 = at.Port(), at.Addr(), netip.Addr{}, netip.MustParseAddr("2001:db8::1")
	return s
}

// offer changes the router's capabilities, and ends the session for it.
func (l *listener) offer(caps ...gobgp.ParameterCapabilityInterface) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caps = caps
	if l.conn != nil {
		l.conn.Close()
	}
}

// talk speaks BGP over one connection.
func (l *listener) talk(conn net.Conn) {
	l.mu.Lock()
	l.conn, l.rib = conn, map[string]bool{}
	hello, err := l.hello()
	l.mu.Unlock()
	if err != nil {
		return
	}
	if _, err := conn.Write(hello); err != nil {
		return
	}
	for {
		kind, body, err := message(conn)
		if err != nil {
			return
		}
		if kind == gobgp.BGP_MSG_KEEPALIVE {
			b, _ := gobgp.NewBGPKeepAliveMessage().Serialize()
			_, _ = conn.Write(b)
		}
		l.take(kind, body)
	}
}

// hello returns an OPEN and a KEEPALIVE. GoBGP writes to capabilities as it serializes them.
func (l *listener) hello() (data []byte, err error) {
	params := []gobgp.OptionParameterInterface{gobgp.NewOptionParameterCapability(append(slices.Clone(l.caps), gobgp.NewCapFourOctetASNumber(65101)))}
	open, err := gobgp.NewBGPOpenMessage(65101, l.hold, netip.MustParseAddr("10.99.0.99"), params)
	if err == nil {
		data, err = open.Serialize()
	}
	keepalive, _ := gobgp.NewBGPKeepAliveMessage().Serialize()
	return append(data, keepalive...), err
}

// take reads a message of this machine's.
func (l *listener) take(kind uint8, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch kind {
	case gobgp.BGP_MSG_OPEN:
		l.opens = append(l.opens, body)
	case gobgp.BGP_MSG_UPDATE:
		l.updates++
		update := &gobgp.BGPUpdate{}
		if err := update.DecodeFromBytes(body); err != nil {
			l.rib["unreadable: "+err.Error()] = true
			return
		}
		for _, p := range update.NLRI {
			l.rib[p.NLRI.String()] = true
		}
		for _, p := range update.WithdrawnRoutes {
			delete(l.rib, p.NLRI.String())
		}
		for _, a := range update.PathAttributes {
			switch attr := a.(type) {
			case *gobgp.PathAttributeMpReachNLRI:
				for _, p := range attr.Value {
					l.rib[p.NLRI.String()] = true
				}
			case *gobgp.PathAttributeMpUnreachNLRI:
				for _, p := range attr.Value {
					delete(l.rib, p.NLRI.String())
				}
			}
		}
	}
}

// has lists the prefixes that the router has from this machine.
func (l *listener) has() (ps []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.rib {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

// offers holds the capabilities that decide what a router accepts, each by a letter.
var offers = map[rune]func() gobgp.ParameterCapabilityInterface{
	'4': func() gobgp.ParameterCapabilityInterface { return gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_UC) },
	'6': func() gobgp.ParameterCapabilityInterface { return gobgp.NewCapMultiProtocol(gobgp.RF_IPv6_UC) },
	'v': func() gobgp.ParameterCapabilityInterface { return gobgp.NewCapMultiProtocol(gobgp.RF_IPv4_VPN) },
	'x': func() gobgp.ParameterCapabilityInterface { return extendedNextHop(gobgp.RF_IPv4_UC) },
	'y': func() gobgp.ParameterCapabilityInterface { return extendedNextHop(gobgp.RF_IPv4_VPN) },
	'r': func() gobgp.ParameterCapabilityInterface { return gobgp.NewCapRouteRefresh() },
}

// extendedNextHop returns the capability of IPv6 next hops for a family.
func extendedNextHop(family gobgp.Family) gobgp.ParameterCapabilityInterface {
	return gobgp.NewCapExtendedNexthop([]*gobgp.CapExtendedNexthopTuple{gobgp.NewCapExtendedNexthopTuple(family, gobgp.AFI_IP6)})
}

// capabilitiesOf returns the capabilities of some letters, made anew.
func capabilitiesOf(letters string) (caps []gobgp.ParameterCapabilityInterface) {
	for _, l := range letters {
		caps = append(caps, offers[l]())
	}
	return caps
}

// Law: for every subset of a router's capabilities, what is planned is announced or refused, with a reason; and what this
// machine reports as announced is what the router has.
func TestWhatIsPlannedIsAnnouncedOrRefused(t *testing.T) {
	var checks []func(*testing.T)
	for _, over := range []string{"127.0.0.1", "::1"} {
		for _, offer := range subsets("46vxyr") {
			l := listen(t, netip.MustParseAddr(over), capabilitiesOf(offer)...)
			s := speakTo(t, l)
			checks = append(checks, func(t *testing.T) {
				want, refused := takenOf(offer, over == "::1")
				t.Logf("over %s, from a router that offers %q", over, offer)
				becomes(t, s, l, want, refused)
			})
		}
	}
	for _, check := range checks {
		check(t)
	}
}

// subsets returns all subsets of some letters.
func subsets(letters string) (all []string) {
	for subset := range 1 << len(letters) {
		var text strings.Builder
		for i, l := range letters {
			if subset&(1<<i) != 0 {
				text.WriteRune(l)
			}
		}
		all = append(all, text.String())
	}
	return all
}

// takenOf returns which of two prefixes a router with such an offer accepts, and the reasons of the others.
func takenOf(offer string, over6 bool) (want []string, refused map[Reason]int) {
	takes := func(c string) bool { return strings.Contains(offer, c) }
	refused = map[Reason]int{}
	if takes("6") {
		want = append(want, "2001:db8:113::10/128")
	} else {
		refused[FamilyNotNegotiated]++
	}
	switch v4 := takes("4") || !takes("6") && !takes("v"); {
	case !v4:
		refused[FamilyNotNegotiated]++
	case over6 && !takes("x"):
		refused[NextHopNotNegotiated]++
	default:
		want = append(want, "203.0.113.10/32")
	}
	return want, refused
}

// speakTo starts a session with a router that is to announce a prefix of each family.
func speakTo(t *testing.T, l *listener) *Speaker {
	t.Helper()
	speaker := NewSpeaker(Options{Log: logger(t)})
	speaker.undamped = true
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	c := announcing(l.session(), advertisement("203.0.113.10/32"), advertisement("2001:db8:113::10/128"))
	if err := speaker.Set(t.Context(), Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{c}}); err != nil {
		t.Fatal(err)
	}
	return speaker
}

// becomes waits until the router has some of two prefixes, and the session withholds the others.
func becomes(t *testing.T, s *Speaker, router *listener, want []string, refused map[Reason]int) {
	t.Helper()
	wait.True(t, 6*time.Second, 20*time.Millisecond, fmt.Sprintf("announced %v, refused %v", want, refused), func() (bool, string) {
		st := s.State(t.Context())[0]
		var announced []string
		for _, p := range st.Announced {
			announced = append(announced, p.String())
		}
		slices.Sort(announced)
		why := map[Reason]int{}
		for _, r := range st.Refusals {
			why[r.Reason]++
		}
		has := router.has()
		ok := st.Up && slices.Equal(announced, want) && slices.Equal(has, want) && fmt.Sprint(why) == fmt.Sprint(refused) && st.Refused+len(announced) == 2
		return ok, fmt.Sprintf("%v\nannounced %v, the router has %v, %d refused: %v", st, announced, has, st.Refused, st.Refusals)
	})
}

// A router that is set to offer more, or less, has its session end and begin.
func TestWhatARouterTakesIsReadOfEachOPEN(t *testing.T) {
	listener := listen(t, netip.MustParseAddr("::1"), capabilitiesOf("46")...)
	speaker := speakTo(t, listener)
	v6 := []string{"2001:db8:113::10/128"}
	both := []string{"2001:db8:113::10/128", "203.0.113.10/32"}
	for _, step := range []struct {
		offers  string
		want    []string
		refused map[Reason]int
	}{
		{"46", v6, map[Reason]int{NextHopNotNegotiated: 1}},
		{"46x", both, nil},
		{"6x", v6, map[Reason]int{FamilyNotNegotiated: 1}},
	} {
		listener.offer(capabilitiesOf(step.offers)...)
		becomes(t, speaker, listener, step.want, step.refused)
	}
}
