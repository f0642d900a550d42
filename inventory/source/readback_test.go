package source

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/document"
)

// storesAccepted reports whether something was written of what is accepted.
func storesAccepted(client *fake.Clientset) bool {
	return slices.ContainsFunc(written(client), func(s string) bool { return strings.Contains(s, AcceptedName) })
}

// TestAMachineThatIsRenamedIsStoredOnce: what is stored of it is read as it is, so nothing is written again.
func TestAMachineThatIsRenamedIsStoredOnce(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k := reconcilerOf(client)
	for generation, name := range []string{"name: w0", "name: w9", "name: w0"} {
		e := proposed(strings.Replace(text("a"), "name: w0", name, 1))
		k.take(e)
		if err := k.step(ctx); err != nil {
			t.Fatal(err)
		}
		client.ClearActions()
		for range 3 {
			k.stored.loaded = false // as the watch tells it
			if err := k.step(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if storesAccepted(client) {
			t.Errorf("%s: nobody has edited anything, and written was %v", name, written(client))
		}
		checkStatus(t, client, "true", []string{"1", "2", "3"}[generation], "")
		agentsHave(t, client, k.stored.have.inventory)
		other := reconcilerOf(client)
		if err := other.step(ctx); err != nil || !document.Equal(other.stored.have.inventory, k.stored.have.inventory) {
			t.Errorf("%s: the next leader has %v (%v)", name, place(other.stored.have.inventory), err)
		}
	}
}

// TestWhatAnEarlierVersionStoredOfARenamedMachineIsStoredAnew: until then older agents cannot read it.
func TestWhatAnEarlierVersionStoredOfARenamedMachineIsStoredAnew(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k := reconcilerOf(client)
	for _, name := range []string{"name: w0", "name: w9, id: w9"} {
		e := proposed(strings.Replace(text("a"), "name: w0", name, 1))
		k.take(e)
		if err := k.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cms := client.CoreV1().ConfigMaps(namespace)
	slice, err := cms.Get(ctx, sliceName("r0", 2), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := slice.Data[keyInventory]
	slice.Data[keyInventory] = strings.Replace(now, "          state: planned\n", "", 1)
	if slice.Data[keyInventory] == now {
		t.Fatal(now)
	}
	if _, err := cms.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	next := reconcilerOf(client)
	if err := next.step(ctx); err != nil {
		t.Fatal(err)
	}
	if slice, err = cms.Get(ctx, sliceName("r0", 3), metav1.GetOptions{}); err != nil || slice.Data[keyInventory] != now {
		t.Errorf("the slice of the next generation is %v (%v), want\n%s", slice, err, now)
	}
	if w0, _ := next.stored.have.inventory.Machine("w0"); w0.PodCIDRs[0].String() != "10.244.0.0/24" {
		t.Errorf("w0 is %+v", w0)
	}
}

// TestWhatWouldNotBeReadBackIsRefusedBeforeTheFirstWrite has the inventory in force hold a machine that cannot be
// stored: no edit leads there, so the test puts it there.
func TestWhatWouldNotBeReadBackIsRefusedBeforeTheFirstWrite(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	k := reconcilerOf(client)
	first := proposed(layout(map[string]string{"r0": "a b"}))
	k.take(first)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	good := k.stored.have
	spoilt := *good.inventory
	spoilt.Racks = slices.Clone(spoilt.Racks)
	spoilt.Racks[0].Machines = slices.Clone(spoilt.Racks[0].Machines)
	spoilt.Racks[0].Machines[1].Reason = "two\nlines"
	k.stored.have.inventory, k.stored.have.stored = &spoilt, &spoilt
	client.ClearActions()
	next := proposed(layout(map[string]string{"r0": "a c"})) // b is held
	k.take(next)
	if err := k.step(ctx); err != nil {
		t.Fatal(err)
	}
	if storesAccepted(client) {
		t.Errorf("it wrote %v", written(client))
	}
	checkStatus(t, client, "false", "1", "P1013")
	checkStatus(t, client, "false", "1", "spec.racks[r0].machines[b]")

	k.stored.have.stored = nil // as if somebody had spoilt what is stored
	if err := k.step(ctx); err == nil || !strings.Contains(err.Error(), "P1013") || storesAccepted(client) {
		t.Errorf("what is in force is stored again: %v, %v", written(client), err)
	}
	k.stored.have = good
	if k.step(ctx) != nil || !document.Equal(k.stored.have.inventory, good.inventory) {
		t.Error("what was in force is not any more")
	}
}

// drawLayout is an inventory whose names, addresses, boards and racks are drawn from a few.
func drawLayout(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n  safety: {maxRemoved: 100%, maxDrained: 100%}\n" +
		"  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\n  racks:\n")
	five := func(what string) []int { return rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, what) }
	names, hosts, boards, tors, torAddresses := five("names"), five("hosts"), five("boards"), five("routers"), five("addresses of routers")
	for rack := range 3 {
		fmt.Fprintf(&b, "    - name: r%d\n", rack)
		if rapid.Bool().Draw(t, "own router") {
			fmt.Fprintf(&b, "      routers: [{name: tor%d, address: 10.10.99.%d, asn: 65101}]\n", tors[rack], 1+torAddresses[rack])
		} else if rapid.Bool().Draw(t, "peers") && strings.Contains(b.String(), "{name: tor") {
			_, after, _ := strings.Cut(b.String(), "{name: ")
			fmt.Fprintf(&b, "      peers: [%s]\n", after[:len("tor0")])
		}
		b.WriteString("      machines:\n")
		for range rapid.IntRange(0, 2).Draw(t, "machines") {
			if len(names) > 0 {
				fmt.Fprintf(&b, "        - {name: w%d, addresses: [10.10.0.%d], state: %s, match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f58593%d}}\n", names[0], 11+hosts[0],
					rapid.SampledFrom([]string{"active", "active", "maintenance", "retired"}).Draw(t, "state"), boards[0])
				names, hosts, boards = names[1:], hosts[1:], boards[1:]
			}
		}
	}
	return b.String()
}

// TestWhatIsStoredReadsBackWhateverIsEditedAndWhoeverDies is the law for every sequence of edits: what is stored
// can be read, and is what was in force or what is to be; once all is written nothing is written again.
func TestWhatIsStoredReadsBackWhateverIsEditedAndWhoeverDies(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ctx, client := t.Context(), fake.NewClientset()
		k := reconcilerOf(client)
		for range 3 {
			e := proposed(drawLayout(rt))
			before := k.stored.have.inventory
			after := nextOf(e, before)
			chain := client.ReactionChain
			dying(client, rapid.IntRange(0, 8).Draw(rt, "writes until the leader dies"))
			k.take(e)
			_ = k.step(ctx)
			client.ReactionChain = chain
			left, err := Accepted(ctx, client, namespace)
			if err != nil {
				rt.Fatalf("what is stored cannot be read: %v\nafter\n%s", err, e.Documents[0].Data)
			}
			if left != nil && !document.Equal(left, before) && !document.Equal(left, after) {
				rt.Fatalf("in force is %v, which nobody accepted", place(left))
			}
			k = reconcilerOf(client)
			k.take(e)
			if err := k.step(ctx); err != nil {
				rt.Fatal(err)
			}
			client.ClearActions()
			k.stored.loaded = false
			if err := k.step(ctx); err != nil || storesAccepted(client) {
				rt.Fatalf("written again is %v (%v)\nafter\n%s", written(client), err, e.Documents[0].Data)
			}
			if left, err = Accepted(ctx, client, namespace); err != nil || !document.Equal(left, k.stored.have.inventory) {
				rt.Fatalf("stored is %v (%v), in force %v", place(left), err, place(k.stored.have.inventory))
			}
		}
	})
}
