package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// causeTold is how soon the API server knows the cause of a session that is down: a machine's condition
// changes once in 30 seconds at most, and a cause takes some attempts.
const causeTold = time.Minute

// mistake is what somebody did to a router; it returns the text that the router is to have, or nothing where
// the router is off.
type mistake struct {
	cause string // that it is known by
	of    func(text string) string
}

// mistakes are two for each kind of router.
var mistakes = map[string][2]mistake{
	"frr": {
		{"ASNMismatch", func(text string) string {
			return strings.ReplaceAll(text, fmt.Sprintf("remote-as %d", lab.MachineASN), "remote-as 64999")
		}},
		{"Refused", func(string) string { return "" }},
	},
	"bird": {
		{"TTLMismatch", func(text string) string {
			return strings.ReplaceAll(text, "  passive on;\n", "  passive on;\n  ttl security on;\n")
		}},
		{"RouterShutdown", func(text string) string {
			return strings.ReplaceAll(text, "  passive on;\n", "  passive on;\n  disabled yes;\n")
		}},
	},
}

// TestWhyASessionIsDownIsKnownFarFromItsMachine has each router be wrong in some way, both at a time, and asks
// status and why about it, which learn of it by the API server alone.
func TestWhyASessionIsDownIsKnownFarFromItsMachine(t *testing.T) {
	l := story.Shared(t)
	usual := routersSides(t, l)
	t.Cleanup(func() { mend(t, l, usual) })
	var causes []string
	for _, two := range mistakes {
		causes = append(causes, two[0].cause, two[1].cause)
	}
	if slices.Sort(causes); !slices.Equal(causes, story.CausesOfE2E) {
		t.Errorf("%q are provoked, want %q", causes, story.CausesOfE2E)
	}
	for round := range 2 {
		for _, r := range l.Topology.Routers {
			if text := mistakes[r.OS][round].of(usual[r.Name]); text == "" {
				must(t, l.StopRouter(t.Context(), r.Name))
			} else if text == usual[r.Name] {
				t.Fatalf("the text of %s has nothing to be edited:\n%s", r.Name, text)
			} else {
				must(t, l.ConfigureRouter(t.Context(), r.Name, text))
			}
		}
		for _, r := range l.Topology.Routers {
			causeFound(t, l, r.Name, mistakes[r.OS][round].cause)
		}
		mend(t, l, usual)
	}
}

// mend gives each router what it had, and waits until all is well.
func mend(t *testing.T, l *lab.Lab, usual map[string]string) {
	t.Helper()
	ctx := context.Background()
	for _, r := range l.Topology.Routers {
		if !l.RouterRuns(r.Name) {
			must(t, l.StartRouter(ctx, r.Name))
		}
		must(t, l.ConfigureRouter(ctx, r.Name, usual[r.Name]))
	}
	must(t, l.WaitFabric(ctx))
}

// routersSides is what plinth prints for each router.
func routersSides(t *testing.T, l *lab.Lab) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	must(t, os.WriteFile(file, []byte(lab.Inventory(l.Topology)), 0o644))
	sides := map[string]string{}
	for _, r := range l.Topology.Routers {
		text, err := l.RouterConfig(t.Context(), r, file)
		must(t, err)
		sides[r.Name] = text
	}
	return sides
}

// causeFound waits until status and why name the cause for each machine of a router's racks.
func causeFound(t *testing.T, l *lab.Lab, router, cause string) {
	t.Helper()
	must(t, lab.Within(t.Context(), causeTold, func(ctx context.Context) error {
		if err := story.BrokenAt(ctx, l, "router/"+router, "fabric", cause); err != nil {
			return err
		}
		for _, rack := range l.Topology.Racks {
			for _, m := range rack.Machines {
				if !slices.Contains(rack.Routers, router) {
					continue
				}
				if err := errors.Join(story.InStatus(ctx, l, m.Name, cause), story.BrokenAt(ctx, l, "node/"+m.Name, "fabric", cause)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}
