package bfd

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAPacketIsReadAsItWasWritten(t *testing.T) {
	micro := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Uint32().Draw(t, "µs")) * time.Microsecond })
	rapid.Check(t, func(t *rapid.T) {
		want := packet{
			diagnostic: Diagnostic(rapid.Uint8Range(0, 31).Draw(t, "diagnostic")), state: State(rapid.Uint8Range(0, 3).Draw(t, "state")),
			poll: rapid.Bool().Draw(t, "poll"), demand: rapid.Bool().Draw(t, "demand"), multiplier: rapid.Uint8Min(1).Draw(t, "multiplier"),
			mine: rapid.Uint32Min(1).Draw(t, "mine"), yours: rapid.Uint32Min(1).Draw(t, "yours"), minTx: micro.Draw(t, "tx"), minRx: micro.Draw(t, "rx"),
		}
		want.final = !want.poll && rapid.Bool().Draw(t, "final")
		if got, ok := parse(want.encode()); !ok || got != want {
			t.Fatalf("%+v, taken %v, want %+v", got, ok, want)
		}
	})
}

// TestEveryFieldIsJudged forges one field of a good packet at a time (RFC 5880, section
// 6.8.6).
func TestEveryFieldIsJudged(t *testing.T) {
	good := packet{state: Up, multiplier: 3, mine: 8, yours: 7, minTx: time.Second, minRx: time.Second}.encode()
	change := func(at int, to ...byte) []byte { b := slices.Clone(good); copy(b[at:], to); return b }
	stateBits := func(s State) byte { return byte(s) << 6 }
	for _, tt := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"as it was", good, true},
		{"version 0", change(0, 0), false},
		{"version 2", change(0, 2<<5), false},
		{"a reserved diagnostic", change(0, 1<<5|31), true},
		{"poll and final", change(1, stateBits(Up)|pollBit|finalBit), false},
		{"control plane independent", change(1, stateBits(Up)|1<<3), true},
		{"authenticated", change(1, stateBits(Up)|authenticated), false},
		{"demand", change(1, stateBits(Up)|demandBit), true},
		{"multipoint", change(1, stateBits(Up)|multipoint), false},
		{"multiplier 0", change(2, 0), false},
		{"a length above the packet's", change(3, 25), false},
		{"a length below the least", append(change(3, 23), 0), false},
		{"a length of nothing", change(3, 0), false},
		{"cut", good[:23], false},
		{"empty", nil, false},
		{"my discriminator 0", change(4, 0, 0, 0, 0), false},
		{"your discriminator 0, up", change(8, 0, 0, 0, 0), false},
		{"your discriminator 0, init", packet{state: Init, multiplier: 3, mine: 8}.encode(), false},
		{"your discriminator 0, down", packet{state: Down, multiplier: 3, mine: 8}.encode(), true},
		{"your discriminator 0, admin down", packet{state: AdminDown, multiplier: 3, mine: 8}.encode(), true},
	} {
		if p, ok := parse(tt.b); ok != tt.ok || ok && p.mine != 8 {
			t.Errorf("%s: taken %v, %+v", tt.name, ok, p)
		}
	}
}

func TestAPaddedPacketIsReadAsFarAsItsLengthSays(t *testing.T) {
	good := newDetector(fast, 7).next(false).encode()
	for name, padding := range map[string][]byte{"not at all": nil, "zeros (RFC 9764)": make([]byte, 8976), "noise": {0xff, 0xff}} {
		if p, ok := parse(append(slices.Clone(good), padding...)); !ok || p.mine != 7 {
			t.Errorf("padded with %s: taken %v, %+v", name, ok, p)
		}
	}
}

func FuzzPacketsOfAnyKindAreSurvived(f *testing.F) {
	good := newDetector(fast, 7).next(false).encode()
	f.Add(good)
	f.Add(good[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDetector(fast, 7)
		if p, ok := parse(b); ok && d.accepts(p) {
			d.receive(p, time.Unix(0, 0))
		}
		if d.untilNext() < 0 || d.detectionTime() < 0 {
			t.Errorf("%x: pause %v, patience %v", b, d.untilNext(), d.detectionTime())
		}
	})
}
