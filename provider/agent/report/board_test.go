package report

import (
	"context"
	"encoding/json"
	"errors"
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

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
	"plinth.dev/plinth/routing/kernel"
	"plinth.dev/plinth/sorted"
)

// asked is what a board asks of a speaker, where nobody watches.
func asked(s *bgp.Speaker) Ask {
	return Ask{Sessions: s.State, LastSeen: func() map[string]time.Duration { return nil }}
}

func TestMetricsAreWellNamed(t *testing.T) {
	b := NewBoard("w1", asked(bgp.NewSpeaker(bgp.Options{})))
	b.Pass(time.Millisecond, kernel.State{Changed: 1}, nil)
	problems, err := testutil.GatherAndLint(b.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestReferenceNamesEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	b := NewBoard("w1", asked(bgp.NewSpeaker(bgp.Options{})))
	described := make(chan *prometheus.Desc, 100)
	b.registry.Describe(described)
	close(described)
	for d := range described {
		_, name, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not name %s", name)
		}
	}
}

func TestWhatASessionKeepsBackIsInTheStatusAndTheMetrics(t *testing.T) {
	speaker := bgp.NewSpeaker(bgp.Options{})
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	b := NewBoard("w1", asked(speaker))
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
		b.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
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
