package lab

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// wires are the network of a lab and nothing else: no control plane, no machine runs anything.
func wires(t *testing.T, topology Topology) *Lab {
	t.Helper()
	l, err := prepare(topology, Options{Name: "wires"})
	if err != nil {
		t.Fatal(err)
	}
	down := func() {
		if err := Down(context.Background(), "wires"); err != nil {
			t.Error(err)
		}
	}
	down()
	t.Cleanup(down)
	if err := claim(l.record); err != nil {
		t.Fatal(err)
	}
	if err := l.buildNetwork(); err != nil {
		t.Fatal(err)
	}
	return l
}

func both(d Dual) []netip.Addr { return []netip.Addr{d.V4, d.V6} }

// owners checks who answers. On a machine that stands still an answer may come after a look, and another look is taken; somebody
// who should not answer fails at once.
func owners(t *testing.T, l *Lab, asker string, addr netip.Addr, want ...string) {
	t.Helper()
	err := Within(t.Context(), 10*time.Second, func(ctx context.Context) error {
		got, err := l.Owners(ctx, asker, addr)
		for _, owner := range got {
			if !slices.Contains(want, owner) {
				t.Errorf("asked by %s, %v answer for %s, want %v", asker, got, addr, want)
				return nil
			}
		}
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("asked by %s, %v answer for %s, want %v", asker, got, addr, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAHostIsHeardByThoseThatItIsNotSeveredFrom(t *testing.T) {
	l := wires(t, Home(3))
	sever := func(ways ...Way) {
		t.Helper()
		if err := l.SetSevered(t.Context(), ways...); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range both(l.Topology.MachineAddress("nuc1")) {
		owners(t, l, Phone, addr, "nuc1")
		sever(Way{"nuc1", Phone})
		owners(t, l, Phone, addr)
		owners(t, l, Laptop, addr, "nuc1")
		sever(Apart([]string{"nuc1", Laptop}, l.Others("shelf", "nuc1", Laptop))...)
		owners(t, l, Phone, addr)
		owners(t, l, Laptop, addr, "nuc1")
		sever()
		owners(t, l, Phone, addr, "nuc1")
		if err := l.Unplug("nuc1"); err != nil {
			t.Fatal(err)
		}
		owners(t, l, Phone, addr)
		if err := l.PlugIn("nuc1"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.WaitOwner(t.Context(), Phone, addr, "nuc1"); err != nil {
			t.Error(err)
		}
	}
}

func TestAPowerCutSilencesTheKernelAsWell(t *testing.T) {
	l := wires(t, Home(2))
	for _, addr := range both(l.Topology.MachineAddress("nuc1")) {
		if err := l.KillMachine(t.Context(), "nuc1"); err != nil {
			t.Fatal(err)
		}
		owners(t, l, Phone, addr)
		if err := l.ReviveMachine(t.Context(), "nuc1"); err != nil {
			t.Fatal(err)
		}
		owners(t, l, Phone, addr, "nuc1")
	}
}

func TestTheSnifferSeesWhoAnswersAndWhoAnnounces(t *testing.T) {
	l := wires(t, Home(2))
	s, err := l.Sniff(t.Context(), "nuc1", Laptop)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	macs, err := l.MACs()
	if err != nil {
		t.Fatal(err)
	}
	vips := []netip.Addr{LANPool4.From(), LANPool6.From()}
	for i, addr := range both(l.Topology.MachineAddress("nuc1")) {
		owners(t, l, Phone, addr, "nuc1")
		if err := l.TakeAddress(Laptop, vips[i]); err != nil {
			t.Fatal(err)
		}
		owners(t, l, Phone, vips[i], Laptop)
		for want, of := range map[FrameKind]netip.Addr{
			[]FrameKind{ARPReply, Advertised}[i]:      addr,
			[]FrameKind{ARPAnnounced, NAAnnounced}[i]: vips[i],
		} {
			err := Within(t.Context(), time.Second, func(context.Context) error {
				seen := s.Frames(func(f Frame) bool { return f.Kind == want && f.Address == of })
				if len(seen) != 1 || macs[seen[0].Where] != seen[0].Host || s.Count(seen[0].Host, want) == 0 || time.Since(seen[0].At) > time.Minute {
					return fmt.Errorf("%s of %s: %+v", want, of, seen)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if err := l.GiveBackAddress(Laptop, vips[i]); err != nil {
			t.Fatal(err)
		}
		owners(t, l, Phone, vips[i])
	}
}
