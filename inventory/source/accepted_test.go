package source

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
)

const namespace = "kube-system"

// dc is an inventory with a rack for each of the given zones.
func dc(t *testing.T, zones ...string) *inventory.Inventory {
	t.Helper()
	inv, problems := inventory.Load(inventory.Document{Source: "dc1.yaml", Data: []byte(text(zones...))})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func text(zones ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\n  racks:\n")
	for i, zone := range zones {
		fmt.Fprintf(&b, "    - name: r%d\n      zone: %s\n      subnets: [10.10.%d.0/26]\n      routers: [{name: tor%d, address: 10.10.%d.1, asn: 6510%d}]\n"+
			"      machines: [{name: w%d, addresses: [10.10.%d.11]}]\n", i, zone, i, i, i, i, i, i)
	}
	return b.String()
}

func TestOnlyWhatChangedIsStoredAndTheCommonPartLast(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	s := shelf{client: client, namespace: namespace}
	save := func(inv *inventory.Inventory) []string {
		t.Helper()
		have, err := s.load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		client.ClearActions()
		if _, err := s.save(ctx, inv, have); err != nil {
			t.Fatal(err)
		}
		return written(client)
	}
	steps := []struct {
		what string
		inv  *inventory.Inventory
		want []string
	}{
		{"the first", dc(t, "a", "a"), []string{"create plinth-accepted-r0", "create plinth-accepted-r1", "create plinth-accepted"}},
		{"the same again", dc(t, "a", "a"), nil},
		{"one rack moves", dc(t, "a", "b"), []string{"update plinth-accepted-r1", "update plinth-accepted"}},
		{"a rack more", dc(t, "a", "b", "c"), []string{"create plinth-accepted-r2", "update plinth-accepted"}},
		{"a rack less", dc(t, "a", "b"), []string{"update plinth-accepted", "delete plinth-accepted-r2"}},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, save(step.inv)); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
}

// written says in order what a client wrote.
func written(client *fake.Clientset) []string {
	var out []string
	for _, a := range client.Actions() {
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update too
			out = append(out, a.GetVerb()+" "+a.GetObject().(*v1.ConfigMap).Name)
		case clienttesting.DeleteAction:
			out = append(out, a.GetVerb()+" "+a.GetName())
		}
	}
	return out
}

func TestWhatWasStoredIsLoadedAsItWas(t *testing.T) {
	ctx := t.Context()
	s := shelf{client: fake.NewClientset(), namespace: namespace}
	inv := dc(t, "a", "b", "c")
	if _, err := s.save(ctx, inv, accepted{}); err != nil {
		t.Fatal(err)
	}
	have, err := s.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(inv.FormatAccepted()), string(have.inventory.FormatAccepted())); diff != "" {
		t.Error(diff)
	}
	if have.generation != 1 {
		t.Errorf("generation %d", have.generation)
	}
}

func TestWhatIsSpoiledIsNotTakenForNothing(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	s := shelf{client: client, namespace: namespace}
	if _, err := s.save(ctx, dc(t, "a"), accepted{}); err != nil {
		t.Fatal(err)
	}
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, AcceptedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data[keyInventory] = "{"
	if _, err := client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.load(ctx); err == nil {
		t.Error("it was loaded")
	}
}

func TestAnAgentGetsItsRackAndOnlyPairsOfOneGeneration(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset()
	s := shelf{client: client, namespace: namespace}
	have, err := s.save(ctx, dc(t, "a", "b"), accepted{})
	if err != nil {
		t.Fatal(err)
	}
	got, done := make(chan *inventory.Inventory, 10), make(chan error)
	go func() {
		done <- Follow(ctx, client, namespace, "r1", func(inv *inventory.Inventory, _ error) { got <- inv })
	}()
	zone := func() string {
		t.Helper()
		select {
		case inv := <-got:
			if len(inv.Racks) != 1 || inv.Racks[0].Name != "r1" || len(inv.PodNetwork.CIDRs) != 1 {
				t.Errorf("racks %v, pod network %v", inv.Racks, inv.PodNetwork)
			}
			return inv.Racks[0].Zone
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was handed out")
			return ""
		}
	}
	if z := zone(); z != "b" {
		t.Errorf("zone %s", z)
	}
	// The keeper dies between the slice and the common part, then comes again.
	want := shelve(dc(t, "a", "c"), 2, have)
	if _, err := s.write(ctx, want[acceptedName("r1")], have.slices[acceptedName("r1")]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * quiet) // a wrong answer would come by now
	if len(got) > 0 {
		t.Error("a slice was handed out before its generation was valid")
	}
	if _, err := s.write(ctx, want[AcceptedName], have.slices[AcceptedName]); err != nil {
		t.Fatal(err)
	}
	if z := zone(); z != "c" {
		t.Errorf("zone %s", z)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
