package edit

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
	"plinth.dev/plinth/lb"
)

// twoRouters is the spec of two machines with two routers, of which tor-b is in that AS.
func twoRouters(asn string) string {
	return "bgp: {asn: 65010}\nsafety: {sessionTrial: 20s}\n" +
		"routers: [{name: tor-a, address: 10.0.0.1, asn: 65101}, {name: tor-b, address: 10.0.0.2, asn: " + asn + "}]\n" +
		"pools: [{name: public, addresses: [203.0.113.0/24]}]\n" +
		"racks: [{name: r1, subnets: [10.0.0.0/24], machines: [{name: w1, addresses: [10.0.0.11]}, {name: w2, addresses: [10.0.0.12]}]}]\n"
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestAVerdictFollowsFromTheEditAndTheEvidence has one case for each way in which an edit is decided on.
func TestAVerdictFollowsFromTheEditAndTheEvidence(t *testing.T) {
	inForce := inventorytest.Of(t, twoRouters("65102"))
	same, retermed := twoRouters("65102"), twoRouters("65103")
	digest := RetermedBy(inventorytest.Of(t, retermed), inForce).Digest()
	lost := Losses{InUse: 3, Unreachable: []LostVIP{{Addr: netip.MustParseAddr("203.0.113.7"), Services: []string{"a/b"}, Why: "no pool has it"}}}
	missing := errors.New("no EndpointSlices")
	running := Trial{ID: "t1", Until: noon.Add(time.Second), Routers: map[string][]string{"n2": {"tor-b"}}}
	over := running
	over.Until = noon
	agents := func(id string, state lb.TrialState) map[string]Agent {
		return map[string]Agent{"w2": {Node: "n2", Says: lb.Report{Trial: lb.TrialReport{ID: id, Sessions: map[string]lb.TrialState{"tor-b": state}}}}}
	}
	both := agents("", "")
	both["w1"] = Agent{Node: "n1", Up: true}
	for name, c := range map[string]struct {
		spec     string
		change   func(*Proposal)
		lost     Losses
		lossErr  error
		storable inventory.Problems
		before   Refusal
		agents   map[string]Agent // nil: nothing is tried
		stored   *Trial
		mine     bool
		silent   []string
		waits    string
		phase    Phase
		problem  string // a part of the problems
		digest   string
		on       string // trial
	}{
		"what changes nothing is allowed":          {spec: same, phase: Allowed},
		"a mistake is refused":                     {spec: "racks: {}", phase: Refused, problem: "is a mapping, not a list"},
		"so is what the documents' places have":    {spec: same, change: func(p *Proposal) { p.Problems = inventory.Problems{{Severity: inventory.Error, Message: "twice"}} }, phase: Refused, problem: "twice"},
		"and a label of another inventory":         {spec: same, change: mislabel, phase: Refused, problem: "another label"},
		"and what is paused":                       {spec: strings.Replace(retermed, "safety: {", "safety: {paused: true, ", 1), phase: Refused, problem: string(inventory.Paused)},
		"what takes away too much is refused":      {spec: retermed, lost: lost, phase: Refused, problem: "takes 1 of 3 VIPs", digest: lost.Digest()},
		"unless it is allowed":                     {spec: retermed, lost: lost, change: allow(lost.Digest()), phase: Allowed},
		"or nothing can be told of the losses":     {spec: retermed, lossErr: missing, phase: Read, waits: "no EndpointSlices"},
		"what cannot be stored is refused":         {spec: retermed, storable: inventory.Problems{{Severity: inventory.Error, Message: "too large"}}, phase: Refused, problem: "too large"},
		"a refusal stays, though all is lost":      {spec: retermed, before: Refusal{"c", "0123"}, phase: Refused, problem: "lost by now", digest: "0123"},
		"not that of another edit":                 {spec: retermed, before: Refusal{"other", "0123"}, phase: Allowed},
		"other terms of sessions are tried":        {spec: retermed, agents: agents("", ""), phase: OnTrial, on: "n2 tor-b"},
		"not where they are allowed":               {spec: retermed, agents: agents("", ""), change: allow(digest), phase: Allowed},
		"nor where no agent could":                 {spec: retermed, agents: map[string]Agent{}, phase: Allowed},
		"a trial goes on until it is over":         {spec: retermed, agents: agents("", ""), stored: &running, mine: true, phase: OnTrial, on: "n2 tor-b"},
		"also that of the leader before":           {spec: retermed, agents: agents("", ""), stored: &running, phase: OnTrial, on: "n2 tor-b"},
		"it ends once the sessions are up":         {spec: retermed, agents: agents("t1", lb.TrialUp), stored: &running, mine: true, phase: Allowed},
		"or fails once it is over":                 {spec: retermed, agents: agents("t1", lb.TrialDown), stored: &over, mine: true, phase: Refused, problem: "n2 with tor-b is down", digest: digest},
		"of a leader before it begins again":       {spec: retermed, agents: agents("t1", lb.TrialDown), stored: &over, phase: OnTrial, on: "n2 tor-b"},
		"who said nothing is replaced":             {spec: retermed, agents: both, stored: &over, mine: true, phase: OnTrial, on: "n1 tor-b"},
		"two times at most":                        {spec: retermed, agents: both, stored: &over, mine: true, silent: []string{"n3", "n4"}, phase: Refused, problem: "did not say", digest: digest},
		"what was tried in vain is not tried more": {spec: retermed, agents: agents("", ""), before: Refusal{"c", digest}, phase: Refused, problem: "tried before", digest: digest},
	} {
		t.Run(name, func(t *testing.T) {
			p := Proposal{Documents: []document.Document{inventorytest.Document(c.spec)}, Content: "c", Mislabelled: func(string) inventory.Problems { return nil }}
			if c.change != nil {
				c.change(&p)
			}
			e := Evidence{
				Known: inForce, Whole: true, Now: noon, Silent: c.silent,
				Losses:   func(*inventory.Inventory) (Losses, error) { return c.lost, c.lossErr },
				Storable: func(*inventory.Inventory) inventory.Problems { return c.storable },
				Refusal:  func() (Refusal, error) { return c.before, nil },
				Running: func(*inventory.Inventory) (Trial, bool, bool) {
					if c.stored == nil {
						return Trial{}, c.mine, false
					}
					return *c.stored, c.mine, true
				},
			}
			if c.agents != nil {
				e.Agents = func() (map[string]Agent, error) { return c.agents, nil }
			}
			v, err := Decide(p, inForce, e)
			if v.Phase != c.phase || v.Digest != c.digest || !strings.Contains(v.Problems.String(), c.problem) || strings.Join(v.Trial.Lines(), "; ") != c.on {
				t.Errorf("it is %s, digest %q, trial %v: %v; want %s, %q, %q", v.Phase, v.Digest, v.Trial.Lines(), v.Problems, c.phase, c.digest, c.on)
			}
			if (err != nil) != (c.waits != "") || err != nil && !strings.Contains(err.Error(), c.waits) {
				t.Errorf("it waits for %v, want %q", err, c.waits)
			}
			if (v.Next != nil) != (c.phase == Allowed || c.phase == OnTrial) {
				t.Errorf("%s with an inventory: %v", v.Phase, v.Next != nil)
			}
		})
	}
}

func mislabel(p *Proposal) {
	p.Mislabelled = func(name string) inventory.Problems {
		return inventory.Problems{{Severity: inventory.Error, Message: "another label than " + name}}
	}
}

func allow(digest string) func(*Proposal) {
	return func(p *Proposal) { p.Allowance.Digests = []string{digest} }
}
