package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/sorted"
)

func TestTheConditionsReasonTellsRoutersFromRoutes(t *testing.T) {
	tests := []struct {
		name string
		t    tally
		want string
	}{
		{"all is there", tally{Routes: 12, RoutesWanted: 12, Sessions: 2, SessionsWanted: 2}, AsPlanned},
		{"one of two routers is down", tally{Routes: 12, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2, PassedBy: 1}, Degraded},
		{"one of two has not answered yet", tally{Routes: 12, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2}, SessionsDown},
		{"both are down", tally{Routes: 12, RoutesWanted: 12, SessionsWanted: 2}, SessionsDown},
		{"both have been down for long, and carry pods", tally{Routes: 12, RoutesWanted: 12, SessionsWanted: 2, CutOff: true}, CutOff},
		{"both have been down for long, and a route is missing", tally{Routes: 11, RoutesWanted: 12, SessionsWanted: 2, CutOff: true}, Incomplete},
		{"a route is missing", tally{Routes: 11, RoutesWanted: 12, Sessions: 2, SessionsWanted: 2}, Incomplete},
		{"a route and a router are missing", tally{Routes: 11, RoutesWanted: 12, Sessions: 1, SessionsWanted: 2, PassedBy: 1}, Incomplete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.t.statement().condition()
			if c.Reason != tt.want || (c.Ready == corev1.ConditionTrue) != (tt.want == AsPlanned) {
				t.Errorf("got %+v, want %s", c, tt.want)
			}
		})
	}
}

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

func TestConditionIsWrittenWhenItChangesAndNotOtherwise(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
	now := func() (plan.Node, bool) {
		n, err := client.CoreV1().Nodes().Get(context.Background(), "w1", metav1.GetOptions{})
		return plan.NodeOf(n), err == nil
	}
	w := newWriter(client, "w1", now)
	for _, c := range []tally{{Routes: 11, RoutesWanted: 12}, {Routes: 11, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12}, {Routes: 12, RoutesWanted: 12, SessionsWanted: 2, Sessions: 1}} {
		w.write(t.Context(), c.statement().condition())
	}
	writes := 0
	for _, a := range client.Actions() {
		if a.GetVerb() == "patch" {
			writes++
			if a.GetSubresource() != "status" {
				t.Errorf("wrote %s", a.GetSubresource())
			}
		}
	}
	n, _ := now()
	if want := (plan.Condition{Ready: corev1.ConditionFalse, Reason: SessionsDown, Message: "routes 12/12, sessions 1/2"}); writes != 3 || n.Condition != want {
		t.Errorf("%d writes, condition %v", writes, n.Condition)
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{}), Table: kernel.NewTable(kernel.Options{})})
	a.metrics.pass(time.Millisecond, kernel.State{Changed: 1}, nil)
	problems, err := testutil.GatherAndLint(a.metrics.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestReferenceNamesEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: bgp.NewSpeaker(bgp.Options{}), Table: kernel.NewTable(kernel.Options{})})
	described := make(chan *prometheus.Desc, 100)
	a.metrics.registry.Describe(described)
	close(described)
	for d := range described {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
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

func TestWhatASessionKeepsBackIsInTheStatusAndTheMetrics(t *testing.T) {
	speaker := bgp.NewSpeaker(bgp.Options{})
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	a := New(Options{NodeName: "w1", Client: fake.NewClientset(), Speaker: speaker, Table: kernel.NewTable(kernel.Options{})})
	in := agenttest.SomeInputs(t)
	m, err := in.Machine()
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Of(new(advertise.Planner), in, m, plan.Phase{}, true, plan.Step{}, routing.Plan(plan.RoutingView(in, m, inventory.ModeDirect, nil))).BGP
	c.Sessions[0].Session.Password = inventory.SecretKey{Secret: "bgp", Key: "missing"} // so that nobody is connected to
	c.Sessions[0].Password = ""
	c.Sessions[0].Advertisements = sorted.Of(advertise.Advertisement{Prefix: netip.MustParsePrefix("0.0.0.0/0")})
	if err := speaker.Set(t.Context(), c); !errors.Is(err, bgp.ErrRefused) {
		t.Fatal(err)
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	var s Status
	if err := json.Unmarshal([]byte(get("/status")), &s); err != nil {
		t.Fatal(err)
	}
	want := []RefusedStatus{{"0.0.0.0/0", string(bgp.PrefixInvalid), "it is a default route"}}
	if diff := cmp.Diff(want, s.Sessions[0].Refusals); diff != "" || s.Sessions[0].Refused != 1 {
		t.Errorf("%d refused: %s", s.Sessions[0].Refused, diff)
	}
	if s.Sessions[0].Phase != "refused" {
		t.Errorf("without its password the session is %q", s.Sessions[0].Phase)
	}
	if metrics := get("/metrics"); !strings.Contains(metrics, `plinth_agent_session_refused_prefixes{address="192.168.1.1",router="gateway"} 1`) {
		t.Error(metrics)
	}
}

func TestAFailureIsLoggedWhenItChanges(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	a := &Agent{}
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
		`"not all is as planned" err="no buffer space"`, `"not all is as planned" err="file exists"`,
		`"all is as planned again"`, `"not all is as planned" err="no buffer space"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
