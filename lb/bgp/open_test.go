package bgp

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

// anOPEN returns an OPEN of a router's without its header: version, AS 65101, hold time in seconds, router ID, optional parameters.
func anOPEN(version, hold byte, id [4]byte, params ...byte) []byte {
	return append([]byte{version, 65101 >> 8, 65101 & 0xff, 0, hold, id[0], id[1], id[2], id[3], byte(len(params))}, params...)
}

// ipv4Capability is the optional parameter with the capability of IPv4 unicast.
var ipv4Capability = []byte{2, 6, 1, 4, 0, 1, 0, 1}

// testTerms returns terms of a session with AS 65101.
func testTerms() terms {
	s := sessionTo("10.10.1.1")
	s.LocalASN, s.RouterASN, s.HoldTime = 65010, 65101, 9*time.Second
	return terms{RouterID: netip.MustParseAddr("10.0.0.7"), Session: s}
}

// Law: whatever either end refuses in the other's OPEN, the cause is not Connecting, and the detail names the thing.
func TestEveryErrorInAnOPENIsNamed(t *testing.T) {
	for subcode, want := range map[uint8]string{
		0: "its log may say what", 1: "version 4", 2: "65010", 3: "10.0.0.7", 4: "RFC 5492", 5: "RFC 2385", 6: "9s", 7: "IPv4", 8: "subcode 8", 9: "subcode 9", 10: "subcode 10", 11: "RFC 9234", 12: "subcode 12", 255: "subcode 255",
	} {
		n := notification{code: 2, subcode: subcode}
		for what, seen := range map[string]evidence{"the router's": {received: &n}, "this machine's": {sent: &n}} {
			got, _ := causeOfAttempt(seen, testTerms())
			if got.cause == Connecting || got.cause == MalformedMessage || got.detail == "" {
				t.Errorf("%s of subcode %d: %v", what, subcode, got)
			}
			if seen.received != nil && !strings.Contains(got.detail, want) {
				t.Errorf("%s of subcode %d does not name %q: %v", what, subcode, want, got)
			}
			if loss := causeOfLoss(seen, testTerms()); loss.detail == "" {
				t.Errorf("%s of subcode %d: no detail where the session was up", what, subcode)
			}
		}
	}
	for subcode := range uint8(4) { // errors in the header: a length, of RFC 9072 as well
		if got, _ := causeOfAttempt(evidence{sent: &notification{code: 1, subcode: subcode}}, testTerms()); got.cause == Connecting || got.detail == "" {
			t.Errorf("a header error %d: %v", subcode, got)
		}
	}
}

func TestWhatIsWrongWithARoutersOPENIsRead(t *testing.T) {
	id, within := [4]byte{10, 99, 0, 99}, testTerms()
	within.Session.LocalASN = within.Session.RouterASN
	withBFD := testTerms()
	withBFD.Session.BFD = inventory.BFDProfile{Name: "fast", Interval: 100 * time.Millisecond, Multiplier: 3}
	long := append(anOPEN(4, 9, id), 255, 0, 3, 2, 0, 0)
	long[9] = 255
	longer := slices.Clone(long)
	longer[9] = 16
	for _, tt := range []struct {
		name  string
		body  []byte
		terms terms
		want  string // empty: nothing is wrong
	}{
		{"all is well", anOPEN(4, 9, id, ipv4Capability...), testTerms(), ""},
		{"without parameters", anOPEN(4, 9, id), testTerms(), ""},
		{"without a hold time", anOPEN(4, 0, id, ipv4Capability...), testTerms(), "turn BFD on"},
		{"without a hold time, with BFD", anOPEN(4, 0, id, ipv4Capability...), withBFD, ""},
		{"the least hold time", anOPEN(4, 3, id), testTerms(), ""},
		{"another version", anOPEN(3, 9, id, ipv4Capability...), testTerms(), "version 3"},
		{"hold time 1", anOPEN(4, 1, id, ipv4Capability...), testTerms(), "hold time is 1s"},
		{"hold time 2", anOPEN(4, 2, id, ipv4Capability...), testTerms(), "hold time is 2s"},
		{"no router ID", anOPEN(4, 9, [4]byte{}, ipv4Capability...), testTerms(), "0.0.0.0"},
		{"our router ID in another AS", anOPEN(4, 9, [4]byte{10, 0, 0, 7}), testTerms(), ""},
		{"our router ID in our AS", anOPEN(4, 9, [4]byte{10, 0, 0, 7}), within, "10.0.0.7, which is this machine's"},
		{"of RFC 9072", long, testTerms(), "RFC 9072"},
		{"of RFC 9072, with a length that means nothing", longer, testTerms(), "RFC 9072"},
		{"with as many octets as fit", anOPEN(4, 9, id, append([]byte{2, 253}, bytes.Repeat([]byte{200, 21, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}, 11)...)...), testTerms(), ""},
		{"a capability that is short", anOPEN(4, 9, id, 2, 3, 65, 1, 0), testTerms(), "cannot be read"},
		{"a parameter longer than the OPEN", anOPEN(4, 9, id, 2, 90, 1, 4), testTerms(), "cannot be read"},
		{"cut off", []byte{4, 0, 1}, testTerms(), "3 octets"},
		{"nothing", nil, testTerms(), "0 octets"},
	} {
		got := refusedInOpen(tt.body, tt.terms)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzAnyOPENIsReadOrRefused: an OPEN without a valid AS number is refused.
func FuzzAnyOPENIsReadOrRefused(f *testing.F) {
	f.Add(anOPEN(4, 9, [4]byte{10, 99, 0, 99}, ipv4Capability...))
	f.Fuzz(func(t *testing.T, body []byte) {
		refused := refusedInOpen(body, testTerms())
		if asn := inventory.ASN(asnOf(body)); refused == "" && asn == 0 && len(body) > 2 && (body[1] != 0 || body[2] != 0) {
			t.Errorf("nothing is wrong with %x, and its AS number is not known", body)
		}
	})
}
