package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bfd"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

var fast = inventory.BFDProfile{Name: "fast", Interval: 100 * time.Millisecond, Multiplier: 3}

func TestTwoDetectorsComeUpAndOneNoticesTheOthersSilence(t *testing.T) {
	now := time.Unix(0, 0)
	a, b := newDetector(fast, 7), newDetector(inventory.BFDProfile{Name: "slow", Interval: 300 * time.Millisecond, Multiplier: 5}, 8)
	var up int
	for range 6 {
		for _, pair := range [][2]*detector{{a, b}, {b, a}} {
			if c, reply := pair[1].receive(*pair[0].packet(false), now); c == bfdCameUp {
				up++
			} else if reply {
				pair[0].receive(*pair[1].packet(true), now)
			}
		}
	}
	if up != 2 || a.state != bfd.StateUp || b.state != bfd.StateUp || a.poll || b.poll {
		t.Fatalf("came up %d times: %+v, %+v", up, a, b)
	}
	if got, want := a.detectionTime(), 1500*time.Millisecond; got != want {
		t.Errorf("the fast end waits %v for the slow one, want %v", got, want)
	}
	if got, want := b.detectionTime(), 900*time.Millisecond; got != want {
		t.Errorf("the slow end waits %v for the fast one, want %v", got, want)
	}
	if p := a.untilNext(); p < 225*time.Millisecond || p > 300*time.Millisecond {
		t.Errorf("the fast end sends every %v, and the slow one wants 300ms", p)
	}
	if c := a.timeOut(); c != bfdTimedOut || a.state != bfd.StateDown || a.tx != time.Second {
		t.Errorf("after silence: %v, %+v", c, a)
	}
	if c, _ := b.receive(*a.packet(false), now); c != bfdNeighborDown {
		t.Errorf("the other end is not told: %v", c)
	}
}

func TestABFDSessionThatEndsIsNoLossOfThePath(t *testing.T) {
	a, b := newDetector(fast, 7), newDetector(fast, 8)
	a.state, b.state, a.remote, b.remote = bfd.StateUp, bfd.StateUp, b.local, a.local
	a.state, a.diagnostic = bfd.StateAdminDown, bfd.DiagnosticAdministrativelyDown
	if c, _ := b.receive(*a.packet(false), time.Unix(0, 0)); c != bfdAdminDown || b.state != bfd.StateDown {
		t.Errorf("got %v, %+v", c, b)
	}
}

func TestTheNextProcessGoesOnWithASessionThatTheRouterStillHasUp(t *testing.T) {
	now := time.Unix(0, 0)
	a, router := newDetector(fast, 7), newDetector(fast, 8)
	a.state, a.remote, a.unsent = bfd.StateUp, 8, false
	router.state, router.remote, router.unsent = bfd.StateUp, 7, false
	a.slowDown(time.Minute)
	if _, reply := router.receive(*a.packet(false), now); !reply || router.detectionTime() != time.Minute {
		t.Fatalf("the router waits for %v, and confirms it: %v", router.detectionTime(), reply)
	}
	if a.receive(*router.packet(true), now); a.poll {
		t.Fatal("the confirmation was not heard")
	}

	next := newDetector(fast, 7)
	if c, _ := next.receive(*router.packet(false), now); c != bfdCameUp || next.state != bfd.StateUp || next.remote != 8 {
		t.Fatalf("%v: %+v", c, next)
	}
	if c, reply := router.receive(*next.packet(false), now); c != bfdUnchanged || !reply || router.detectionTime() != 300*time.Millisecond {
		t.Errorf("%v: the router waits for %v", c, router.detectionTime())
	}
}

func TestASessionThatWasLostIsNotGoneOnWith(t *testing.T) {
	now := time.Unix(0, 0)
	a, router := newDetector(fast, 7), newDetector(fast, 8)
	a.state, a.remote, a.unsent = bfd.StateUp, 8, false
	router.state, router.remote, router.unsent = bfd.StateUp, 7, false
	a.timeOut() // the router is not heard, and hears us
	if c, _ := a.receive(*router.packet(false), now); c != bfdUnchanged || a.state != bfd.StateDown {
		t.Errorf("%v: %+v", c, a)
	}
	if c, _ := router.receive(*a.packet(false), now); c != bfdNeighborDown {
		t.Errorf("the router is not told: %v", c)
	}
}

// TestARouterThatFallsSilentIsForgottenInAnyState: RFC 5880, section 6.8.1. A router that
// comes back with another discriminator discards what bears the old one.
func TestARouterThatFallsSilentIsForgottenInAnyState(t *testing.T) {
	now := time.Unix(0, 0)
	for _, last := range []bfd.StateType{bfd.StateAdminDown, bfd.StateDown, bfd.StateInit, bfd.StateUp} {
		t.Run(last.String(), func(t *testing.T) {
			for _, state := range []bfd.StateType{bfd.StateDown, bfd.StateInit, bfd.StateUp} {
				d := newDetector(fast, 7)
				d.state, d.remote, d.unsent = state, 8, false
				h := bfd.BFDHeader{Version: 1, State: last, Diagnostic: bfd.DiagnosticPathDown, DetectTimeMultiplier: 3, MyDiscriminator: 8, YourDiscriminator: 7, DesiredMinTxInterval: 1e6, RequiredMinRxInterval: 0}
				d.receive(h, now)
				was, diagnostic := d.state, d.diagnostic
				if !d.detects() {
					t.Errorf("from %v: the detection time does not run in %v", state, was)
				}
				e := d.timeOut()
				if p := d.packet(false); p.YourDiscriminator != 0 || p.State != bfd.StateDown || !d.remoteWantsPackets() || d.detects() {
					t.Errorf("from %v: sends %+v, wanted %v, the detection time runs %v", state, p, d.remoteWantsPackets(), d.detects())
				}
				if lost := was == bfd.StateUp; (e == bfdTimedOut) != lost {
					t.Errorf("from %v: event %v in %v", state, e, was)
				}
				if was == bfd.StateDown && d.diagnostic != diagnostic {
					t.Errorf("from %v: the reason for being down was %v and is %v", state, diagnostic, d.diagnostic)
				}
			}
		})
	}
}

func TestAPaddedPacketIsReadAsFarAsItsLengthSays(t *testing.T) {
	good, err := newDetector(fast, 7).packet(false).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, to byte) []byte { b := slices.Clone(good); b[at] = to; return b }
	for _, tt := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"plain", good, true},
		{"padded (RFC 9764)", append(slices.Clone(good), make([]byte, 8976)...), true},
		{"padded with noise", append(slices.Clone(good), 0xff, 0xff), true},
		{"a length above the packet's", change(3, 25), false},
		{"a length below the least", append(change(3, 23), 0), false},
		{"a length of nothing", change(3, 0), false},
		{"cut", good[:23], false},
	} {
		if h, ok := parseBFD(tt.b); ok != tt.ok || ok && h.MyDiscriminator != 7 {
			t.Errorf("%s: taken %v, %+v", tt.name, ok, h)
		}
	}
}

func TestPacketsOfOtherSessionsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDetector(fast, 7)
		d.state, d.remote = bfd.StateUp, 7
		before := *d
		h := bfd.BFDHeader{
			Version: rapid.Uint8Range(0, 7).Draw(t, "version"), State: bfd.StateType(rapid.Uint8Range(0, 3).Draw(t, "state")),
			DetectTimeMultiplier: rapid.Uint8().Draw(t, "multiplier"), MyDiscriminator: rapid.Uint32().Draw(t, "mine"),
			YourDiscriminator: rapid.Uint32Min(1).Filter(func(v uint32) bool { return v != d.local }).Draw(t, "yours"),
		}
		if c, reply := d.receive(h, time.Unix(0, 0)); c != bfdUnchanged || reply || *d != before {
			t.Fatalf("%+v did %v", h, c)
		}
	})
}

func FuzzBFDPacketsOfAnyKindAreSurvived(f *testing.F) {
	up := newDetector(fast, 7)
	up.state = bfd.StateUp
	good, err := up.packet(false).MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDetector(fast, 7)
		if h, ok := parseBFD(b); ok {
			d.receive(h, time.Unix(0, 0))
		}
		if d.untilNext() < 0 || d.detectionTime() < 0 {
			t.Errorf("%x: pause %v, patience %v", b, d.untilNext(), d.detectionTime())
		}
	})
}

// TestBFDThatCannotBeOpenedFailsAlikeEachTime, since only a failure that is new is logged.
func TestBFDThatCannotBeOpenedFailsAlikeEachTime(t *testing.T) {
	elsewhere := bfdTerms{local: netip.MustParseAddr("192.0.2.200"), router: netip.MustParseAddr("192.0.2.201"), profile: fast}
	_, once := dialBFD(elsewhere, bfdPort)
	_, again := dialBFD(elsewhere, bfdPort)
	if !errors.Is(once, syscall.EADDRNOTAVAIL) || fmt.Sprint(once) != fmt.Sprint(again) {
		t.Errorf("%v, then %v", once, again)
	}
}
