package edit

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// lossesOf is what a change of machines takes away.
func lossesOf(t *testing.T, before, after string) (Losses, *inventory.Inventory) {
	t.Helper()
	inForce := inventorytest.Parsed(t, before)
	next, problems := Admit(inventorytest.Parsed(t, after), inForce)
	if next == nil {
		t.Fatal(problems)
	}
	return LossesOf(next, inForce), inForce
}

func TestMachinesThatLeaveServiceCount(t *testing.T) {
	out := func(n int, state inventory.State) string {
		return strings.Replace(fleet(8, 0), "state: active", "state: "+string(state), n)
	}
	for _, c := range []struct {
		what          string
		before, after string
		ok            bool
	}{
		{"two of eight may", fleet(8, 0), out(2, inventory.StateMaintenance), true},
		{"three of eight may not", fleet(8, 0), out(3, inventory.StateMaintenance), false},
		{"nor may three be off", fleet(8, 0), out(3, inventory.StateOff), false},
		{"what is out of service already does not count", out(2, inventory.StateOff), out(4, inventory.StateMaintenance), true},
		{"nor what comes back", out(8, inventory.StateMaintenance), fleet(8, 0), true},
		{"the rack's state counts", fleet(8, 0), strings.Replace(fleet(8, 0), "name: r01\n", "name: r01\n  state: maintenance\n", 1), false},
		{"one machine of two may", fleet(2, 0), strings.Replace(fleet(2, 0), "state: active", "state: off", 1), true},
		{"the limit is that in force", "safety: {maxDrained: 1}\n" + fleet(8, 0), "safety: {maxDrained: 100%}\n" + out(2, inventory.StateOff), false},
		{"a limit may be wide", "safety: {maxDrained: 100%}\n" + fleet(8, 0), out(8, inventory.StateOff), true},
		{"a machine that is not mentioned is held, and goes on", fleet(8, 0), fleet(7, 0), true},
	} {
		losses, inForce := lossesOf(t, c.before, c.after)
		problems, digest := losses.Refuse(inForce, Allowance{})
		if c.ok != (len(problems) == 0) || !c.ok && problems[0].Code != inventory.TooManyDrained {
			t.Errorf("%s: %v", c.what, problems)
		}
		if allowed, _ := losses.Refuse(inForce, Allowance{Digests: []string{"another", digest}}); len(allowed) > 0 {
			t.Errorf("%s: allowed, and refused: %v", c.what, allowed)
		}
	}
}

func TestVIPsThatNobodyWouldAnnounceCount(t *testing.T) {
	lost := func(addrs ...string) (out []LostVIP) {
		for _, a := range addrs {
			out = append(out, LostVIP{netip.MustParseAddr(a), []string{"default/web"}, "no pool has it"})
		}
		return out
	}
	inForce := inventorytest.Parsed(t, fleet(2, 0))
	none := Losses{InUse: 7}
	if problems, digest := none.Refuse(inForce, Allowance{}); len(problems) > 0 || digest != "" {
		t.Errorf("nothing is lost: %v %q", problems, digest)
	}
	one := Losses{InUse: 7, Unreachable: lost("203.0.113.77")}
	problems, digest := one.Refuse(inForce, Allowance{})
	if len(problems) != 1 || problems[0].Code != inventory.VIPsUnreachable {
		t.Fatal(problems)
	}
	for _, want := range []string{"1 of 7 VIPs", "service default/web loses 203.0.113.77: no pool has it", "safety.maxUnreachable (0)", "plinth allow " + digest} {
		if !strings.Contains(problems.String(), want) {
			t.Errorf("%q is not in %s", want, problems)
		}
	}
	if allowed, _ := one.Refuse(inForce, Allowance{Digests: []string{digest}}); len(allowed) > 0 {
		t.Errorf("allowed, and refused: %v", allowed)
	}
	more := Losses{InUse: 7, Unreachable: lost("203.0.113.77", "203.0.113.78")}
	if problems, _ := more.Refuse(inForce, Allowance{Digests: []string{digest}}); len(problems) == 0 {
		t.Error("one more is lost than was allowed, and it passed")
	}
	wide := inventorytest.Parsed(t, "safety: {maxUnreachable: 20%}\n"+fleet(2, 0))
	if problems, _ := more.Refuse(wide, Allowance{}); len(problems) > 0 {
		t.Errorf("two of seven, with 20%%: %v", problems)
	}
}

func TestADigestIsOfTheLossesAndNotOfTheEdit(t *testing.T) {
	half := func(state inventory.State) string {
		return strings.Replace(fleet(8, 0), "state: active", "state: "+string(state), 4)
	}
	a, inForce := lossesOf(t, fleet(8, 0), half(inventory.StateMaintenance))
	b, _ := lossesOf(t, fleet(8, 0), "labels: {example.com/a: b}\n"+half(inventory.StateOff))
	_, one := a.Refuse(inForce, Allowance{})
	_, two := b.Refuse(inForce, Allowance{})
	if one == "" || one != two {
		t.Errorf("the same machines leave service: %q and %q", one, two)
	}
	b.Drained = slices.Delete(b.Drained, 0, 1)
	if _, other := b.Refuse(inForce, Allowance{}); other == one {
		t.Errorf("other machines leave service: %q", other)
	}
}

func TestExpectedPools(t *testing.T) {
	_, problems := document.Parse(inventorytest.Document("expect: {pools: [public]}\n" + fleet(1, 0)))
	if len(problems.Errors()) != 1 || problems.Errors()[0].Code != inventory.ExpectNotMet {
		t.Error(problems)
	}
	_, problems = document.Parse(inventorytest.Document("expect: {pools: [public]}\npools: [{name: public, addresses: [203.0.113.0/24]}]\n" + fleet(1, 0)))
	if len(problems.Errors()) > 0 {
		t.Error(problems)
	}
}
