package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
)

func TestAMachineIsCutOffWhenNoRouterKeepsItsRoutesAnyMore(t *testing.T) {
	now := time.Now()
	lately, long := bgp.SessionState{Since: now.Add(-time.Minute)}, bgp.SessionState{Since: now.Add(-time.Hour)}
	up := bgp.SessionState{Up: true, Since: now.Add(-time.Hour)}
	for name, tt := range map[string]struct {
		states []bgp.SessionState
		want   bool
	}{
		"none is planned":              {nil, false},
		"all are down for long":        {[]bgp.SessionState{long, long}, true},
		"one is down since a minute":   {[]bgp.SessionState{long, lately}, false},
		"one is up":                    {[]bgp.SessionState{long, up}, false},
		"the agent has just restarted": {[]bgp.SessionState{lately, lately}, false},
	} {
		if got := cutOff(tt.states, now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPasswordsNeverShow(t *testing.T) {
	in := agenttest.SomeInputs(t)
	m, _ := in.Machine()
	p := plan.Of(new(advertise.Planner), in, m, plan.Phase{}, true, plan.Step{}, routing.Plan(plan.RoutingView(in, m, inventory.ModeDirect, nil)))
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", in.Passwords, p, p)} {
		if strings.Contains(s, "s3cret") {
			t.Errorf("it shows in %s", s)
		}
	}
}

func TestAFailureIsLoggedWhenItChanges(t *testing.T) {
	var log bytes.Buffer
	a := &Agent{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	one, two := errors.New("no buffer space"), errors.New("file exists")
	for _, err := range []error{nil, one, one, one, two, two, nil, nil, one} {
		a.tellFailure(err)
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		_, said, _ := strings.Cut(strings.TrimSpace(line), "msg=")
		got = append(got, said)
	}
	want := []string{
		`"failed to carry out all of the plan" err="no buffer space"`, `"failed to carry out all of the plan" err="file exists"`,
		`"carried out all of the plan again"`, `"failed to carry out all of the plan" err="no buffer space"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
