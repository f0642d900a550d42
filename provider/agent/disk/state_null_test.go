package disk

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/agenttest"
	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/routing"
)

// damaged returns a JSON document once for each value in it, which is null there.
func damaged(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		set(nil)
		b, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = b
		set(v)
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(path+"."+k, inner, func(to any) { v[k] = to })
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), inner, func(to any) { v[i] = to })
			}
		}
	}
	walk("", document, func(to any) { document = to })
	return all
}

func TestAStateWithANullAnywhereIsSurvived(t *testing.T) {
	d, err := Open(t.TempDir(), thisOwner)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Save(agenttest.SomeInputs(t)); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(d.dir, StateFile)
	text, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for path, text := range damaged(t, text) {
		if err := os.WriteFile(state, text, 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := d.Load()
		if err != nil {
			continue
		}
		loaded++
		t.Log("null at", path)
		m, err := in.Machine()
		if err != nil {
			continue
		}
		for _, mode := range []inventory.Mode{inventory.ModeDirect, inventory.ModeFabric, inventory.ModeOverlay} {
			routes := new(routing.Planner).Plan(plan.RoutingView(in, m, mode, nil))
			plan.Of(new(advertise.Planner), in, m, plan.Phase{}, true, plan.Step{Routes: mode}, routes)
		}
	}
	if loaded == 0 {
		t.Error("none was loaded: the test shows nothing")
	}
}
