package proxy

import (
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/disk"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/sorted"
)

// TestWhatWasHeldBackIsNotAnnouncedByTheNextProcessEither goes by the state on disk.
func TestWhatWasHeldBackIsNotAnnouncedByTheNextProcessEither(t *testing.T) {
	held, announced := aSavedOffer("held", "203.0.113.5"), aSavedOffer("announced", "203.0.113.6")
	passed := held
	passed.RulesPending = true
	in := agenttest.SomeInputs(t)
	in.Offers, in.Passed = sorted.Of(held, announced), sorted.Of(passed, announced)
	loaded := storedAndLoaded(t, in)
	g := NewGate(&rules{}, func() {})
	g.rules.Adopt(loaded.Offers)
	in = plan.Inputs{Offers: sorted.Of(held, announced)}
	g.Apply(&in, time.Now())
	if got := slices.Collect(in.Passed.All()); len(got) != 2 || !got[0].RulesPending || got[1].RulesPending {
		t.Errorf("passed: %v", got)
	}
	if first, _ := loaded.Offers.Next(held); first.Frontend != held.Frontend {
		t.Errorf("where it is reached was forgotten: %v", first)
	}
}

// TestAnAgentThatBeginsWithoutAnAPIServerDoesNotWaitForAnotherProxyEither goes by the state on disk, which is too old to take anything
// for announced.
func TestAnAgentThatBeginsWithoutAnAPIServerDoesNotWaitForAnotherProxyEither(t *testing.T) {
	other := aSavedOffer("web", "203.0.113.5")
	other.Frontend.Proxy = "other"
	in := agenttest.SomeInputs(t)
	in.Offers, in.Passed = sorted.Of(other), sorted.Of(other)
	loaded := storedAndLoaded(t, in)
	g := NewGate(&rules{}, func() {})
	g.Apply(&loaded, time.Now())
	if o, _ := loaded.Passed.Next(other); o.RulesPending || o.Frontend != other.Frontend {
		t.Errorf("passed: %+v", o)
	}
}

// storedAndLoaded is what the next process reads of what this one has on disk.
func storedAndLoaded(t *testing.T, in plan.Inputs) plan.Inputs {
	t.Helper()
	d, err := disk.Open(t.TempDir(), disk.Owner{Node: "nuc1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(in); err != nil {
		t.Fatal(err)
	}
	loaded, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
