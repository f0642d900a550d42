package fib

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

func TestATableHearsOfHostRoutesAtOnceAndDoesNotWaitForEver(t *testing.T) {
	const space = "plt-bench-fib"
	t.Cleanup(func() {
		if err := netns.Delete(space); err != nil {
			t.Error(err)
		}
	})
	must(t, netns.Add(space))
	must(t, netns.IP(space, "link set lo up"))
	table, err := Follow(space)
	must(t, err)
	t.Cleanup(func() { must(t, table.Close()) })
	begun := time.Now()
	must(t, netns.IP(space, "route add 10.255.8.1/32 dev lo", "route add 10.255.9.0/24 dev lo", "route add fd00::8/128 dev lo", "route add 10.255.8.2/32 dev lo table 77"))
	v4, v6 := netip.MustParseAddr("10.255.8.1"), netip.MustParseAddr("fd00::8")
	must(t, table.Await(10*time.Second, func(v View) bool { return v.There[v4].After(begun) && v.There[v6].After(begun) }))
	first := table.First(v4)
	must(t, netns.IP(space, "route del 10.255.8.1/32", "route add 10.255.8.1/32 dev lo"))
	must(t, table.Await(10*time.Second, func(v View) bool { return v.There[v4].After(first) && v.Newest.Equal(v.There[v4]) }))
	if table.Deleted() != 1 || !table.First(v4).Equal(first) {
		t.Errorf("%d deleted, first at %s; want 1, and %s", table.Deleted(), table.First(v4), first)
	}
	table.Forget()
	if again := table.First(v4); !again.IsZero() {
		t.Errorf("forgotten, it came first at %s", again)
	}
	err = table.Await(300*time.Millisecond, func(v View) bool { return len(v.There) == 3 })
	if err == nil || !strings.Contains(err.Error(), "there are 2 host routes") {
		t.Errorf("waiting for a third route: %v, want an error that says how many there are", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
