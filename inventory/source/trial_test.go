package source

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
)

// trials is a reconciler with an inventory in force, and what the agents say.
type trials struct {
	*judged
	agents map[string]edit.Agent
	clock  time.Time
}

// inAS is an inventory of two machines with two routers, of which tor-b is in that AS.
func inAS(asn string) Edit {
	return proposed(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  safety: {sessionTrial: 20s}
  routers:
    - {name: tor-a, address: 10.0.0.1, asn: 65101}
    - {name: tor-b, address: 10.0.0.2, asn: ` + asn + `}
  pools: [{name: public, addresses: [203.0.113.0/24]}]
  racks:
    - name: r1
      subnets: [10.0.0.0/24]
      machines:
        - {name: w1, addresses: [10.0.0.11]}
        - {name: w2, addresses: [10.0.0.12]}
`)
}

func newTrials(t *testing.T) *trials {
	tr := &trials{judged: &judged{t: t, client: fake.NewClientset()}, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	tr.agents = map[string]edit.Agent{"w1": {Node: "node-1"}, "w2": {Node: "node-2", Up: true}}
	tr.restart()
	tr.says(inAS("65102"), "")
	return tr
}

func (tr *trials) restart() {
	tr.judged.restart()
	tr.Agents = func(context.Context) (map[string]edit.Agent, error) { return tr.agents, nil }
	tr.Now = func() time.Time { return tr.clock }
}

// stored is the trial that is stored; nil: none is.
func (tr *trials) stored() *v1.ConfigMap {
	tr.t.Helper()
	cm, err := tr.client.CoreV1().ConfigMaps(tr.Namespace).Get(tr.t.Context(), TrialName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		tr.t.Fatal(err)
	}
	return cm
}

// report has the agent of node-2 say what became of its session with tor-b.
func (tr *trials) report(state lb.TrialState) {
	tr.t.Helper()
	id := tr.stored().Annotations[AnnotationTrial]
	tr.agents["w2"] = edit.Agent{Node: "node-2", Says: lb.Report{
		Counts: lb.Counts{Counted: true, Sessions: 1, SessionsWanted: 2}, Trial: lb.TrialReport{ID: id, Sessions: map[string]lb.TrialState{"tor-b": state}},
	}}
}

func (tr *trials) follows(node string) Followed {
	tr.t.Helper()
	got := make(chan Followed, 1)
	ctx, stop := context.WithCancel(tr.t.Context())
	defer stop()
	go Follow(ctx, tr.client, tr.Namespace, "r1", node, func(f Followed, _ error) { got <- f })
	select {
	case f := <-got:
		return f
	case <-time.After(10 * time.Second):
		tr.t.Fatal("nothing is handed out")
	}
	return Followed{}
}

// asOf is the AS that a machine's session with a router expects.
func asOf(inv *inventory.Inventory, router string) string {
	for m := range inv.Machines() {
		for _, s := range inv.Sessions(m) {
			if s.Router == router {
				return s.RouterASN.String()
			}
		}
	}
	return ""
}

func TestNewTermsAreTriedOnOneMachineForEachRouterFirst(t *testing.T) {
	tr := newTrials(t)
	e := inAS("65103")
	e.Documents[0].Data = []byte(strings.Replace(string(e.Documents[0].Data), "name: public", "name: other", 1))
	tr.says(e, "on trial until 2026-11-22T12:00:20Z, on one machine for each router whose sessions get other terms: node-2 tor-b")
	if f := tr.follows("node-1"); f.Trial != nil || asOf(f.Inventory, "tor-b") != "65102" {
		t.Errorf("another machine follows %+v", f)
	}
	f := tr.follows("node-2")
	if f.Trial == nil || asOf(f.Inventory, "tor-b") != "65102" || asOf(f.Trial.Inventory, "tor-b") != "65103" || !f.Trial.Until.Equal(tr.clock.Add(20*time.Second)) {
		t.Errorf("the machine that is to try it follows %+v", f)
	}
	if _, there := f.Trial.Inventory.Pool("other"); there {
		t.Error("what else the edit says does not wait")
	}
	tr.clock = tr.clock.Add(19 * time.Second)
	tr.stepSays("on trial until")
	tr.report(lb.TrialUp)
	tr.stepSays("")
	if f := tr.follows("node-1"); asOf(f.Inventory, "tor-b") != "65103" {
		t.Errorf("once it is up the others follow %+v", f)
	}
	if tr.stored() != nil {
		t.Error("the trial is stored still")
	}
}

func TestTermsThatDoNotComeUpAreRefusedAndStayRefused(t *testing.T) {
	tr := newTrials(t)
	bad := inAS("65103")
	tr.says(bad, "on trial")
	tr.report(lb.TrialDown)
	tr.stepSays("on trial")
	tr.clock = tr.clock.Add(20 * time.Second)
	tr.stepSays("error[P1011]: spec: gives sessions other terms, and not all of those that were tried came up within 20s: the session of node-2 with tor-b is down")
	if tr.stored() != nil {
		t.Error("the trial is stored still")
	}
	if f := tr.follows("node-2"); f.Trial != nil || asOf(f.Inventory, "tor-b") != "65102" {
		t.Errorf("the machine that tried it follows %+v", f)
	}
	tr.restart()
	tr.says(bad, "the same edit was tried before")
	if tr.stored() != nil {
		t.Error("another leader tries it again")
	}
	tr.allow()
	tr.stepSays("")
	if f := tr.follows("node-1"); asOf(f.Inventory, "tor-b") != "65103" {
		t.Errorf("what is allowed is not taken up: %+v", f)
	}
}

func TestATrialGoesOnUnderAnotherLeaderAndEndsWithItsEdit(t *testing.T) {
	tr := newTrials(t)
	tr.says(inAS("65103"), "on trial")
	id := tr.stored().Annotations[AnnotationTrial]
	tr.clock = tr.clock.Add(10 * time.Second)
	tr.restart()
	tr.says(inAS("65103"), "on trial until 2026-11-22T12:00:20Z")
	if tr.stored().Annotations[AnnotationTrial] != id {
		t.Error("another leader begins another trial")
	}
	tr.says(inAS("65104"), "on trial until 2026-11-22T12:00:30Z")
	if tr.stored().Annotations[AnnotationTrial] == id {
		t.Error("another edit is tried under the name of the first")
	}
	tr.says(inAS("65102"), "")
	if tr.stored() != nil {
		t.Error("the edit was taken back, and its trial is stored still")
	}
}

func TestAMachineTriesOneRouterAndKeepsTheOther(t *testing.T) {
	tr := newTrials(t)
	tr.agents["w1"] = edit.Agent{Node: "node-1", Up: true}
	text := strings.Replace(string(inAS("65103").Documents[0].Data), "asn: 65101", "asn: 65104", 1)
	tr.says(proposed(text), "on trial until 2026-11-22T12:00:20Z, on one machine for each router whose sessions get other terms: node-1 tor-a, node-2 tor-b")
	if f := tr.follows("node-1"); asOf(f.Trial.Inventory, "tor-a") != "65104" || asOf(f.Trial.Inventory, "tor-b") != "65102" {
		t.Errorf("it follows %+v", f.Trial.Inventory)
	}
}

func TestWhatHasNothingToLoseIsNotTried(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*trials)
		state  lb.TrialState
		text   [2]string // of the edit: replaced, by
		want   string
	}{
		{"no agent runs", func(tr *trials) { tr.agents = nil }, "", [2]string{}, ""},
		{"the session was down before", nil, lb.TrialDownBefore, [2]string{}, ""},
		{"a router more", nil, "", [2]string{"asn: 65103}", "asn: 65102}\n    - {name: tor-c, address: 10.0.0.3, asn: 65103}"}, ""},
		{"a router for another, beside one that stays", nil, "", [2]string{"{name: tor-b, address: 10.0.0.2,", "{name: tor-c, address: 10.0.0.3,"}, ""},
		{"a router for all that there are", nil, "", [2]string{"{name: tor-a, address: 10.0.0.1, asn: 65101}\n    - {name: tor-b, address: 10.0.0.2,", "{name: tor-c, address: 10.0.0.3,"}, "node-2 tor-c"},
		{"a pool", nil, "", [2]string{"asn: 65103}\n  pools: [{name: public", "asn: 65102}\n  pools: [{name: other"}, ""},
		{"another address of a router", nil, "", [2]string{"address: 10.0.0.2, asn: 65103", "address: 10.0.0.9, asn: 65102"}, "on trial"},
		{"TTL security", nil, "", [2]string{"asn: 65103}", "asn: 65102, ttlSecurity: true}"}, "on trial"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTrials(t)
			if tt.change != nil {
				tt.change(tr)
			}
			text := string(inAS("65103").Documents[0].Data)
			if tt.text[0] != "" {
				if !strings.Contains(text, tt.text[0]) {
					t.Fatal("the edit is none")
				}
				text = strings.Replace(text, tt.text[0], tt.text[1], 1)
			}
			e := proposed(text)
			if tt.state != "" {
				tr.says(e, "on trial")
				tr.report(tt.state)
				tr.stepSays(tt.want)
				return
			}
			tr.says(e, tt.want)
		})
	}
}

func TestASessionThatWasDownSaysNothingOfOthersThatAreUp(t *testing.T) {
	tr := newTrials(t)
	tr.says(inAS("65103"), "on trial")
	tr.report(lb.TrialDownBefore)
	tr.agents["w1"] = edit.Agent{Node: "node-1", Up: true}
	tr.clock = tr.clock.Add(20 * time.Second)
	tr.stepSays("was down before, and others are up")
}

func TestWhereAnAgentSaysNothingAnotherTriesIt(t *testing.T) {
	tr := newTrials(t)
	tr.agents["w1"] = edit.Agent{Node: "node-1", Up: true}
	tr.says(inAS("65103"), "node-1 tor-b")
	tr.clock = tr.clock.Add(20 * time.Second)
	tr.stepSays("on trial")
	if got := trialIn(tr.stored()).Lines(); len(got) != 1 || got[0] != "node-2 tor-b" {
		t.Fatalf("who tries it then: %v", got)
	}
	tr.clock = tr.clock.Add(20 * time.Second)
	tr.report(lb.TrialUp)
	tr.stepSays("")
}

// A leader that has just begun has not read the edit yet.
func TestANewLeaderLeavesATrialAloneThatItKnowsNoEditOf(t *testing.T) {
	tr := newTrials(t)
	tr.says(inAS("65103"), "on trial")
	tr.restart()
	tr.edit = nil
	if err := tr.step(t.Context()); err != nil || tr.stored() == nil {
		t.Fatalf("the trial is gone; %v", err)
	}
	tr.clock = tr.clock.Add(time.Minute)
	if err := tr.step(t.Context()); err != nil || tr.stored() != nil {
		t.Errorf("what is over is stored still; %v", err)
	}
}
