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

// A router that refuses the OPEN of a session refuses that of a probe too, which then reports why.
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
			listener := listen(t, netip.MustParseAddr("127.0.0.1"), capabilitiesOf("46")...)
			session := listener.session()
			change(&session)
			speaks := NewSpeaker(Options{Log: logger(t)})
			t.Cleanup(func() { _ = speaks.Leave(context.Background()) })
			config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{announcing(session)}}
			if err := speaks.Set(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			var sent []byte
			wait.True(t, 6*time.Second, 20*time.Millisecond, "GoBGP sends an OPEN", func() (bool, string) {
				listener.mu.Lock()
				defer listener.mu.Unlock()
				if len(listener.opens) > 0 {
					sent = listener.opens[0]
				}
				return sent != nil, ""
			})
			ours := open(terms{RouterID: config.RouterID, Session: session})[gobgp.BGP_HEADER_LENGTH:]
			if fixed := 9; !slices.Equal(ours[:fixed], sent[:fixed]) {
				t.Errorf("version, AS, hold time and router ID are % x, and GoBGP's % x", ours[:fixed], sent[:fixed])
			}
			got, want := offersOf(t, ours), offersOf(t, sent)
			if len(got) != len(want) {
				t.Fatalf("a probe offers %s, GoBGP %s", capabilityNames(got), capabilityNames(want))
			}
			for i := range got {
				data, _ := got[i].Serialize()
				other, _ := want[i].Serialize()
				switch code := want[i].Code(); {
				case code == gobgp.BGP_CAP_SOFT_VERSION: // whichever it is
					data, other = data[:1], other[:1]
				case code == gobgp.BGP_CAP_GRACEFUL_RESTART: // flags and time, without families
					data, other = data[2:4], other[2:4]
				}
				if got[i].Code() != want[i].Code() || !slices.Equal(data, other) {
					t.Errorf("a probe offers %s, % x, where GoBGP offers %s, % x", capabilityNames(got[i:i+1]), data, capabilityNames(want[i:i+1]), other)
				}
			}
		})
	}
}

func TestTheCapabilitiesThatARouterNamesAreSaid(t *testing.T) {
	for _, tt := range []struct {
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
		{"\x40\x09\x00", ""}, // shorter than its length
		{"\x40", ""},
	} {
		if got := (notification{code: 2, subcode: 7, data: tt.data}).capabilities(); got != tt.want {
			t.Errorf("% x: %q, want %q", tt.data, got, tt.want)
		}
	}
	if got := (notification{code: 2, subcode: 6, data: "\x40\x02\x00\x78"}).capabilities(); got != "" {
		t.Errorf("an error about the hold time names %s", got)
	}
}
