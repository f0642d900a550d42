package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
)

// forgetPrevious has all accepted ConfigMaps be as an older version left them: it kept nothing
// of what it wrote over.
func forgetPrevious(t *testing.T, client *fake.Clientset) {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(namespace)
	list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: LabelAccepted})
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range list.Items {
		delete(cm.Annotations, annotationPrevious)
		cm.BinaryData = nil
		if _, err := maps.Update(t.Context(), &cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHalfOfAnEditThatAnOlderVersionStoredIsReadAfterAnUpgrade has an older version die after
// so many slices, then this one after each number of writes, and one come after that.
func TestHalfOfAnEditThatAnOlderVersionStoredIsReadAfterAnUpgrade(t *testing.T) {
	before := map[string]string{"r0": "a b", "r1": "c d"}
	for name, tt := range map[string]struct {
		after  map[string]string
		writes int // of the older version
		racks  string
		read   map[string]string
	}{
		"machines come to both":                      {map[string]string{"r0": "a b x", "r1": "c d y"}, 1, "[r0]", map[string]string{"r0": "a b x", "r1": "c d"}},
		"a machine moved to the slice that is newer": {map[string]string{"r0": "a b c", "r1": "d"}, 1, "[r0]", map[string]string{"r0": "a b c", "r1": "d"}},
		"a machine moved to a rack that is new":      {map[string]string{"q0": "a", "r0": "b", "r1": "c d x"}, 2, "[q0 r0]", map[string]string{"q0": "a", "r0": "b", "r1": "c d"}},
		"all slices are stored":                      {map[string]string{"r0": "b", "r1": "a c d"}, 2, "[r0 r1]", map[string]string{"r0": "b", "r1": "a c d"}},
	} {
		for writes := range 5 {
			t.Run(fmt.Sprint(name, " ", writes), func(t *testing.T) {
				ctx, client := t.Context(), fake.NewClientset()
				chain := client.ReactionChain
				older, was, is := keeperOf(client), edit(layout(before)), edit(layout(tt.after))
				older.edit = &was
				if err := older.step(ctx); err != nil {
					t.Fatal(err)
				}
				had := blocks(older.have.inventory)
				dying(client, tt.writes)
				older.edit, older.judged = &is, false
				if older.step(ctx) == nil {
					t.Fatal("the older version did not fail")
				}
				client.ReactionChain = chain
				forgetPrevious(t, client)

				var log bytes.Buffer
				first := keeperOf(client)
				first.Log = slog.New(slog.NewTextHandler(&log, nil))
				read := map[string]string(nil)
				first.Enforce = func(inv *inventory.Inventory) {
					if read == nil {
						read = racksOf(inv)
					}
				}
				third := edit(layout(map[string]string{"q0": "b", "r0": "d a u", "r1": "c"}))
				dying(client, writes)
				first.edit = &third
				_ = first.step(ctx) // it fails where there are too few writes
				client.ReactionChain = chain
				if !maps.Equal(read, tt.read) {
					t.Errorf("in force is %v, want %v", read, tt.read)
				}
				if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), tt.racks) {
					t.Errorf("the log says %s, want a warning of racks %s", &log, tt.racks)
				}

				second := keeperOf(client)
				if err := second.step(ctx); err != nil {
					t.Fatal(err)
				}
				keptBlocks(t, had, blocks(second.have.inventory))
				for _, racks := range []map[string]string{tt.after, {"q0": "b", "r0": "d a u", "r1": "c"}} {
					e := edit(layout(racks))
					second.edit, second.judged = &e, false
					if err := second.step(ctx); err != nil {
						t.Fatal(err)
					}
					keptBlocks(t, had, blocks(second.have.inventory))
				}
				stored, err := Accepted(ctx, client, namespace)
				if err != nil || !maps.Equal(place(stored), place(second.have.inventory)) {
					t.Errorf("stored is %v (%v), in force %v", place(stored), err, place(second.have.inventory))
				}
				for _, rack := range stored.Racks {
					if got := rackOfAnAgent(t, client, rack.Name); got == nil || !maps.Equal(place(got), place(stored.Slice(rack.Name))) {
						t.Errorf("an agent of %s gets %v, want its part of %v", rack.Name, got, place(stored))
					}
				}
			})
		}
	}
}

// racksOf returns the machines of each rack, sorted.
func racksOf(inv *inventory.Inventory) map[string]string {
	out := map[string]string{}
	for _, rack := range inv.Racks {
		var names []string
		for _, m := range rack.Machines {
			names = append(names, m.Name)
		}
		slices.Sort(names)
		out[rack.Name] = strings.Join(names, " ")
	}
	return out
}

// keptBlocks checks that each machine is there and has the pod CIDRs that it had.
func keptBlocks(t *testing.T, had, has map[string]string) {
	t.Helper()
	for machine, block := range had {
		if has[machine] != block {
			t.Errorf("machine %s had %s and now has %q", machine, block, has[machine])
		}
	}
}
