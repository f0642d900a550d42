package source

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

const namespace = "kube-system"

// dc is an inventory with a rack for each of the given zones.
func dc(t *testing.T, zones ...string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(text(zones...))})
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
	s := acceptedStore{client: client, namespace: namespace}
	save := func(inv *inventory.Inventory) []string {
		t.Helper()
		have, err := s.load(ctx)
		if err != nil {
			t.Fatal(err)
		}
		client.ClearActions()
		if have, err = s.save(ctx, inv, have); err != nil {
			t.Fatal(err)
		}
		if err := s.tidy(ctx, have); err != nil {
			t.Fatal(err)
		}
		return written(client)
	}
	steps := []struct {
		what string
		inv  *inventory.Inventory
		want []string
	}{
		{"the first", dc(t, "a", "a"), []string{"create plinth-accepted.r0.1", "create plinth-accepted.r1.1", "create plinth-accepted",
			"create plinth-accepted-r0", "create plinth-accepted-r1"}},
		{"the same again", dc(t, "a", "a"), nil},
		{"one rack moves", dc(t, "a", "b"), []string{"create plinth-accepted.r1.2", "create plinth-accepted.previous", "update plinth-accepted", "update plinth-accepted-r1"}},
		{"a rack more", dc(t, "a", "b", "c"), []string{"create plinth-accepted.r2.3", "update plinth-accepted.previous", "update plinth-accepted", "create plinth-accepted-r2", "delete plinth-accepted.r1.1"}},
		{"a rack less", dc(t, "a", "b"), []string{"update plinth-accepted.previous", "update plinth-accepted", "delete plinth-accepted-r2"}},
		{"and one moves", dc(t, "b", "b"), []string{"create plinth-accepted.r0.5", "update plinth-accepted.previous", "update plinth-accepted", "update plinth-accepted-r0", "delete plinth-accepted.r2.3"}},
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
	s := acceptedStore{client: fake.NewClientset(), namespace: namespace}
	inv := dc(t, "a", "b", "c")
	if _, err := s.save(ctx, inv, accepted{}); err != nil {
		t.Fatal(err)
	}
	have, err := s.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(document.FormatAccepted(inv)), string(document.FormatAccepted(have.inventory))); diff != "" {
		t.Error(diff)
	}
	if have.generation != 1 {
		t.Errorf("generation %d", have.generation)
	}
}

func TestWhatIsSpoiledIsNotTakenForNothing(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	s := acceptedStore{client: client, namespace: namespace}
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
	s := acceptedStore{client: client, namespace: namespace}
	have, err := s.save(ctx, dc(t, "a", "b"), accepted{})
	if err != nil {
		t.Fatal(err)
	}
	got, done := make(chan *inventory.Inventory, 10), make(chan error)
	go func() {
		done <- Follow(ctx, client, namespace, "r1", "w1", func(f Followed, _ error) { got <- f.Inventory })
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
	chain := client.ReactionChain
	dying(client, 1) // the leader dies between the slice and what lists it, then another comes
	if _, err := s.save(ctx, dc(t, "a", "x"), have); err == nil {
		t.Fatal("the leader did not die")
	}
	client.ReactionChain = chain
	if _, err := s.save(ctx, dc(t, "a", "c"), have); err == nil || !apierrors.IsAlreadyExists(err) {
		t.Errorf("over what is left of it another is stored: %v", err)
	}
	if have, err = s.load(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.save(ctx, dc(t, "a", "c"), have); err != nil {
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

// TestAnAgentReadsAgainWhereASliceIsGone has it be there again without any word of what lists
// it, and then has another one be listed.
func TestAnAgentReadsAgainWhereASliceIsGone(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	s := acceptedStore{client: client, namespace: namespace}
	have, err := s.save(ctx, dc(t, "a"), accepted{})
	if err != nil {
		t.Fatal(err)
	}
	slice := have.parts[sliceName("r0", 1)]
	if err := s.maps().Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{}, 99)
	client.PrependReactor("list", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if strings.Contains(a.(clienttesting.ListAction).GetListRestrictions().Fields.String(), slice.Name) {
			looked <- struct{}{}
		}
		return false, nil, nil
	})
	got := make(chan *inventory.Inventory, 9)
	go Follow(ctx, client, namespace, "r0", "w1", func(f Followed, _ error) { got <- f.Inventory })
	<-looked
	if _, err := s.maps().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"a", "b"} {
		select {
		case inv := <-got:
			if inv == nil || inv.Racks[0].Zone != zone {
				t.Errorf("it gets %v, want zone %s", inv, zone)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("it gets nothing of zone %s", zone)
		}
		if have, err = s.save(ctx, dc(t, "b"), have); err != nil {
			t.Fatal(err)
		}
	}
}
