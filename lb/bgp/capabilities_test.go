package bgp

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/wait"
)

// offersOf reads the capabilities of an OPEN, each as it was sent.
func offersOf(t *testing.T, body []byte) (caps []gobgp.ParameterCapabilityInterface) {
	t.Helper()
	open := &gobgp.BGPOpen{}
	if err := open.DecodeFromBytes(body); err != nil {
		t.Fatal(err)
	}
	for _, p := range open.OptParams {
		caps = append(caps, p.(*gobgp.OptionParameterCapability).Capability...)
	}
	return caps
}

// A router that refuses the OPEN of a session refuses that of a probe too, which then says why.
func TestAProbeOffersWhatASessionOffers(t *testing.T) {
	for name, change := range map[string]func(*inventory.Session){
		"both families":            func(*inventory.Session) {},
		"IPv4 alone":               func(s *inventory.Session) { s.Families.IPv6 = false },
		"IPv6 alone":               func(s *inventory.Session) { s.Families.IPv4 = false },
		"within the AS":            func(s *inventory.Session) { s.LocalASN = s.RouterASN },
		"an AS of four octets":     func(s *inventory.Session) { s.LocalASN = 4200000001 },
		"without graceful restart": func(s *inventory.Session) { s.RestartTime = 0 },
		"a hold time of a minute":  func(s *inventory.Session) { s.HoldTime = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, netip.MustParseAddr("127.0.0.1"), capabilitiesOf("46")...)
			s := l.session()
			change(&s)
			speaks := NewSpeaker(Options{Log: logger(t)})
			t.Cleanup(func() { _ = speaks.Leave(context.Background()) })
			c := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{announcing(s)}}
			if err := speaks.Set(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			var sent []byte
			wait.True(t, 6*time.Second, 20*time.Millisecond, "GoBGP sends an OPEN", func() (bool, string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if len(l.opens) > 0 {
					sent = l.opens[0]
				}
				return sent != nil, ""
			})
			ours := open(terms{RouterID: c.RouterID, Session: s})[gobgp.BGP_HEADER_LENGTH:]
			if fixed := 9; !slices.Equal(ours[:fixed], sent[:fixed]) {
				t.Errorf("version, AS, hold time and router ID are % x, and GoBGP's % x", ours[:fixed], sent[:fixed])
			}
			got, want := offersOf(t, ours), offersOf(t, sent)
			if len(got) != len(want) {
				t.Fatalf("a probe offers %s, GoBGP %s", capabilityNames(got), capabilityNames(want))
			}
			for i := range got {
				a, _ := got[i].Serialize()
				b, _ := want[i].Serialize()
				switch code := want[i].Code(); {
				case code == gobgp.BGP_CAP_SOFT_VERSION: // whichever it is
					a, b = a[:1], b[:1]
				case code == gobgp.BGP_CAP_GRACEFUL_RESTART: // flags and time, without families
					a, b = a[2:4], b[2:4]
				}
				if got[i].Code() != want[i].Code() || !slices.Equal(a, b) {
					t.Errorf("a probe offers %s, % x, where GoBGP offers %s, % x", capabilityNames(got[i:i+1]), a, capabilityNames(want[i:i+1]), b)
				}
			}
		})
	}
}

func TestTheCapabilitiesThatARouterNamesAreSaid(t *testing.T) {
	for _, c := range []struct {
		data string
		want string
	}{
		{"", ""},
		{"\x40\x02\x00\x78", "graceful restart (RFC 4724)"},
		{"\x05\x06\x00\x01\x00\x01\x00\x02", "extended next hops (RFC 8950)"},
		{"\x01\x04\x00\x01\x00\x80\x45\x04\x00\x01\x01\x03", "another address family, additional paths (RFC 7911)"},
		{"\x01\x04\x00\x02\x00\x01", "IPv6 unicast"},
		{"\x09\x01\x03", "a role (RFC 9234)"},
		{"\xf0\x00", "capability 240"},
		{"\x40\x09\x00", ""}, // shorter than it says
		{"\x40", ""},
	} {
		if got := (notification{code: 2, subcode: 7, data: c.data}).capabilities(); got != c.want {
			t.Errorf("% x: %q, want %q", c.data, got, c.want)
		}
	}
	if got := (notification{code: 2, subcode: 6, data: "\x40\x02\x00\x78"}).capabilities(); got != "" {
		t.Errorf("an error about the hold time names %s", got)
	}
}
