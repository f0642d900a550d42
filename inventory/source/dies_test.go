package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// layout is an inventory with these machines in its racks.
func layout(racks map[string]string) string {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\n  routers: [{name: tor, address: 10.10.99.1, asn: 65101}]\n  racks:\n")
	for _, rack := range slices.Sorted(maps.Keys(racks)) {
		fmt.Fprintf(&b, "    - name: %s\n      machines:\n", rack)
		for name := range strings.FieldsSeq(racks[rack]) {
			fmt.Fprintf(&b, "        - {name: %s, addresses: [10.10.0.%d]}\n", name, name[0])
		}
	}
	return b.String()
}

// dying has all writes of accepted ConfigMaps fail but the first so many.
func dying(client *fake.Clientset, writes int) {
	fails := func(a clienttesting.Action) (bool, runtime.Object, error) {
		if name := nameOf(a); !strings.HasPrefix(name, AcceptedName) {
			return false, nil, nil
		}
		writes--
		return writes < 0, nil, errors.New("the leader is dead")
	}
	for _, verb := range []string{"create", "update", "delete"} {
		client.PrependReactor(verb, "configmaps", fails)
	}
}

// nameOf is the name of the ConfigMap that somebody writes.
func nameOf(a clienttesting.Action) string {
	switch a := a.(type) {
	case clienttesting.CreateAction: // an update too
		return a.GetObject().(*v1.ConfigMap).Name
	case clienttesting.DeleteAction:
		return a.GetName()
	}
	return ""
}

// place says where a machine is and which pods it has.
func place(inv *inventory.Inventory) map[string]string {
	out := map[string]string{}
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			out[m.Name] = fmt.Sprint(rack.Name, " ", m.PodCIDRs)
		}
	}
	return out
}

func blocks(inv *inventory.Inventory) map[string]string {
	out := map[string]string{}
	for _, rack := range inv.Racks {
		for _, m := range rack.Machines {
			out[m.Name] = fmt.Sprint(m.PodCIDRs)
		}
	}
	return out
}

// TestALeaderThatDiesAfterAnyWriteLeavesOneGenerationForAll has the leader die after each number
// of writes of an edit. The next leader, an agent that starts now, one that was there all
// the time and one of version 0.1 have what was in force or what was taken up, never a mix.
func TestALeaderThatDiesAfterAnyWriteLeavesOneGenerationForAll(t *testing.T) {
	before := map[string]string{"r0": "a b", "r1": "c"}
	afters := map[string]map[string]string{
		"a machine moves to a later rack":      {"r0": "b", "r1": "c a"},
		"a machine moves to an earlier rack":   {"r0": "a b c", "r1": "d"},
		"a rack is new":                        {"r0": "b", "r1": "c", "r2": "a"},
		"a rack goes":                          {"r0": "a b c"},
		"a rack takes the other's machines":    {"r0": "c", "r1": "a b"},
		"machines come to both":                {"r0": "a b d", "r1": "c e"},
		"two racks are new, one of them first": {"q0": "a", "r0": "b", "r1": "c", "r2": "d"},
	}
	for name, after := range afters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for writes, all := 0, false; !all; writes++ {
				all = diesAfter(t, writes, before, after)
			}
		})
	}
}

// diesAfter has the leader die after so many writes of an edit, and another one come. It
// reports whether the edit needs no more writes than these.
func diesAfter(t *testing.T, writes int, before, after map[string]string) (all bool) {
	t.Logf("the leader dies after %d writes", writes)
	ctx, client := t.Context(), fake.NewClientset()
	first, was, is := reconcilerOf(client), proposed(layout(before)), proposed(layout(after))
	for _, e := range []Edit{proposed(layout(map[string]string{"r0": "a", "r1": "c b"})), was} {
		first.take(e)
		if err := first.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	inForce := first.stored.have.inventory
	next := nextOf(is, inForce)
	agent := make(chan *inventory.Inventory, 99)
	go Follow(ctx, client, namespace, "r1", "w1", func(f Followed, _ error) { agent <- f.Inventory })
	<-agent
	chain := client.ReactionChain
	dying(client, writes)
	first.take(is)
	all = first.step(ctx) == nil
	client.ReactionChain = chain

	left, err := Accepted(ctx, client, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if !document.Equal(left, inForce) && !document.Equal(left, next) {
		t.Errorf("in force is %v, which nobody accepted", place(left))
	}
	agentsHave(t, client, left)
	checkOlder(t, client, left, inForce)

	second := reconcilerOf(client)
	if err := second.step(ctx); err != nil {
		t.Fatal(err)
	}
	if !document.Equal(second.stored.have.inventory, left) {
		t.Errorf("the next leader has %v, want %v", place(second.stored.have.inventory), place(left))
	}
	checkOlder(t, client, left, left)
	for _, text := range []string{layout(after), layout(map[string]string{"r0": "a b c f", "r1": "d"})} {
		e := proposed(text)
		second.take(e)
		if err := second.step(ctx); err != nil {
			t.Fatal(err)
		}
		keptBlocks(t, inForce, second.stored.have.inventory)
	}
	stored, err := Accepted(ctx, client, namespace)
	if err != nil || !document.Equal(stored, second.stored.have.inventory) {
		t.Errorf("stored is %v (%v), in force %v", place(stored), err, place(second.stored.have.inventory))
	}
	checkKept(t, second.stored.have)
	for last := (*inventory.Inventory)(nil); last == nil || !maps.Equal(place(last), place(stored.Slice("r1"))); {
		select {
		case last = <-agent:
		case <-time.After(10 * time.Second):
			t.Fatalf("an agent that was there all the time has %v", place(last))
		}
		if got := place(last); !maps.Equal(got, place(inForce.Slice("r1"))) && !maps.Equal(got, place(next.Slice("r1"))) && !maps.Equal(got, place(stored.Slice("r1"))) {
			t.Errorf("an agent that was there all the time got %v, which nobody accepted", got)
		}
	}
	return all
}

// agentsHave checks that an agent of each rack that starts now gets its part of an inventory.
func agentsHave(t *testing.T, client *fake.Clientset, want *inventory.Inventory) {
	t.Helper()
	for _, rack := range want.Racks {
		if got := rackOfAnAgent(t, client, rack.Name); got == nil || !maps.Equal(place(got), place(want.Slice(rack.Name))) {
			t.Errorf("an agent of %s that starts now gets %v, want its part of %v", rack.Name, got, place(want))
		}
	}
}

// checkOlder checks that what version 0.1 takes is of the generation in force, or, before the
// copies are written, nothing new: it takes a slice whose generation the common one lists.
func checkOlder(t *testing.T, client *fake.Clientset, inForce, before *inventory.Inventory) {
	t.Helper()
	have, err := acceptedStore{client: client, namespace: namespace}.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for rack, n := range listed(have.parts[AcceptedName], keyRacks) {
		slice := have.parts[AcceptedName+"-"+rack]
		switch want := string(document.FormatAccepted(inForce.Slice(rack))); {
		case slice != nil && slice.Annotations[AnnotationGeneration] == fmt.Sprint(n):
			if slice.Data[keyInventory] != want {
				t.Errorf("version 0.1 takes for rack %s\n%s\nwant\n%s", rack, slice.Data[keyInventory], want)
			}
		case inForce == before:
			t.Errorf("version 0.1 finds nothing of generation %d of rack %s", n, rack)
		}
	}
}

// checkKept checks that the slices of two generations are stored, with the copies for version
// 0.1, and nothing else of that age.
func checkKept(t *testing.T, have accepted) {
	t.Helper()
	want := map[string]bool{AcceptedName: true}
	if have.parts[PreviousName] != nil {
		want[PreviousName] = true
	}
	for rack, n := range listed(have.parts[AcceptedName], keyRacks) {
		want[sliceName(rack, n)], want[copyName(rack)] = true, true
	}
	for rack, n := range listed(have.parts[AcceptedName], keyPrevious) {
		want[sliceName(rack, n)] = true
	}
	for name, part := range have.parts {
		if !want[name] && generationOf(part) <= have.generation {
			t.Errorf("%s is stored, which nobody reads", name)
		}
		if strings.HasPrefix(name, AcceptedName+".") && name != PreviousName && (part.Immutable == nil || !*part.Immutable) {
			t.Errorf("%s may be changed", name)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not stored: %v", want)
	}
}

// keptBlocks checks that each machine is there and has the pod CIDRs that it had.
func keptBlocks(t *testing.T, had, has *inventory.Inventory) {
	t.Helper()
	is := blocks(has)
	for machine, block := range blocks(had) {
		if is[machine] != block {
			t.Errorf("machine %s had %s and now has %q", machine, block, is[machine])
		}
	}
}

// rackOfAnAgent is what an agent of a rack that starts now gets; nil: nothing within a
// while.
func rackOfAnAgent(t *testing.T, client *fake.Clientset, rack string) *inventory.Inventory {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan *inventory.Inventory, 9)
	go Follow(ctx, client, namespace, rack, "w1", func(f Followed, _ error) { got <- f.Inventory })
	select {
	case inv := <-got:
		return inv
	case <-time.After(5 * time.Second):
		return nil
	}
}

// TestWhatAnAgentIsGivenIsOfOneGenerationThoughAnEditFailedHalfWay has two edits fail
// before a third one succeeds: what the first left is no part of it.
func TestWhatAnAgentIsGivenIsOfOneGenerationThoughAnEditFailedHalfWay(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k := reconcilerOf(client)
	step := func(racks map[string]string) error {
		e := proposed(layout(racks))
		k.take(e)
		return k.step(ctx)
	}
	if err := step(map[string]string{"r0": "a", "r1": "b"}); err != nil {
		t.Fatal(err)
	}
	chain := client.ReactionChain
	for _, racks := range []map[string]string{{"r0": "a x", "r1": "b y"}, {"r0": "a z", "r1": "b v"}} {
		dying(client, 1) // r0's slice alone
		if err := step(racks); err == nil {
			t.Fatal("the write did not fail")
		}
		client.ReactionChain = chain
		if inv := rackOfAnAgent(t, client, "r0"); inv == nil || inv.Size() != 1 {
			t.Errorf("an agent gets %v, want what is in force", inv)
		}
	}
	if err := step(map[string]string{"r0": "a u", "r1": "b"}); err != nil {
		t.Fatal(err)
	}
	agentsHave(t, client, k.stored.have.inventory)
	if _, there := k.stored.have.inventory.Machine("u"); !there {
		t.Errorf("in force is %v", place(k.stored.have.inventory))
	}
}
