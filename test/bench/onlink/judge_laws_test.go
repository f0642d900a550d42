package onlink

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/lab"
)

// machinesOf4 are those of a home with a seat at each, a phone and a gateway.
var machinesOf4 = []string{"a", "b", "c", "d"}

func judgeOf4(was, is [][]string) judge {
	j := judge{
		machines: machinesOf4, every: splitAsk, still: func(from, to time.Time) time.Duration { return 0 }, owner: map[netip.Addr]string{},
		was: cutting{lost: map[lab.Way]bool{}}, is: cutting{lost: map[lab.Way]bool{}},
	}
	for _, m := range machinesOf4 {
		j.hosts = append(j.hosts, m, seatAt(m))
	}
	j.hosts = append(j.hosts, lab.Phone, lab.HomeGateway)
	j.was.part(was, false)
	j.is.part(is, false)
	return j
}

func TestWhoIsToAnswerSoonDependsOnThePlace(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.1")
	whole := [][]string{{"a", "at-a", "b", "at-b", "c", "at-c", "d", "at-d", lab.Phone, lab.HomeGateway}}
	parted := [][]string{{"a", "at-a", "b", "at-b", lab.Phone}, {"c", "at-c", "d", "at-d", lab.HomeGateway}}
	alone := [][]string{{"a", "at-a"}, {"b", "at-b", "c", "at-c", "d", "at-d"}, {lab.Phone}, {lab.HomeGateway}}
	for _, c := range []struct {
		name    string
		was, is [][]string
		change  func(*judge)
		place   string
		want    law
	}{
		{"nothing is cut", whole, whole, nil, "phone", majorityLaw},
		{"half of it with the first", whole, parted, nil, "phone", majorityLaw},
		{"half of it with the gateway", whole, parted, nil, "at-c", minorityLaw},
		{"a majority that was one before", whole, alone, nil, "at-c", majorityLaw},
		{"a majority that was none before", parted, alone, nil, "at-c", joinedLaw},
		{"a machine alone", whole, alone, nil, "at-a", noLaw},
		{"nobody at all", whole, alone, nil, "phone", noLaw},
		{"of half of it one is frozen", whole, parted, func(j *judge) { j.is.frozen = map[string]bool{"b": true} }, "phone", noLaw},
		{"and the other's agent suspended", whole, parted, func(j *judge) { j.is.suspended = map[string]bool{"c": true, "d": true} }, "at-c", noLaw},
		{"whoever has it is away for a moment", whole, whole, func(j *judge) {
			j.is.suspended, j.owner[vip] = map[string]bool{"b": true}, "b"
		}, "phone", noLaw},
		{"another one is", whole, whole, func(j *judge) {
			j.is.suspended, j.owner[vip] = map[string]bool{"b": true}, "a"
		}, "phone", majorityLaw},
		{"whoever has it goes on", whole, whole, func(j *judge) { j.resumed = map[string]bool{"b": true} }, "phone", joinedLaw},
		{"two do not see each other", whole, whole, func(j *judge) { j.is.lost[lab.Way{From: "a", To: "b"}] = true }, "phone", noLaw},
	} {
		j := judgeOf4(c.was, c.is)
		if c.change != nil {
			c.change(&j)
		}
		if got := j.noneLaw(c.place, vip); got != c.want {
			t.Errorf("%s: at %s got %v, want %v", c.name, c.place, got, c.want)
		}
	}
}

func TestTwoMayAnswerForLongerWhereTwoSidesServed(t *testing.T) {
	whole := [][]string{slices.Concat(machinesOf4, []string{"at-a", "at-b", "at-c", "at-d", lab.Phone, lab.HomeGateway})}
	both := [][]string{{"a", "at-a", "b", "at-b", lab.Phone}, {"c", "at-c", "d", "at-d", lab.HomeGateway}}
	one := [][]string{{"a", "at-a", "b", "at-b", lab.Phone, lab.HomeGateway}, {"c", "at-c", "d", "at-d"}}
	for _, c := range []struct {
		name    string
		was, is [][]string
		place   string
		want    law
	}{
		{"nothing was cut", whole, whole, lab.Phone, ownerLaw},
		{"one side served", one, whole, lab.Phone, ownerLaw},
		{"both sides served", both, whole, lab.Phone, mergedLaw},
		{"both sides serve on", both, both, lab.Phone, ownerLaw},
	} {
		if got := judgeOf4(c.was, c.is).twoLaw(c.place); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	j := judgeOf4(whole, whole)
	j.is.lost[lab.Way{From: "a", To: "b"}] = true
	if got := j.twoLaw(lab.Phone); got != noLaw {
		t.Errorf("two do not see each other: got %v", got)
	}
}

func TestTheLongestTimesCount(t *testing.T) {
	whole := [][]string{slices.Concat(machinesOf4, []string{"at-a", "at-b", "at-c", "at-d", lab.Phone, lab.HomeGateway})}
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	asked := []answered{
		{at(0), []string{"a"}}, {at(100), []string{"a", "b"}}, {at(300), []string{"a", "b"}}, {at(400), []string{"b"}},
		{at(500), nil}, {at(1000), nil}, {at(1100), []string{"a"}}, {at(1200), nil}, {at(2200), nil},
	}
	two, none := judgeOf4(whole, whole).longest("phone", netip.Addr{}, asked, begin, at(2300))
	if two.net != 200*time.Millisecond || two.from != at(100) || two.broken() || !slices.Equal(two.owners, []string{"a", "b"}) {
		t.Errorf("two: %v", two)
	}
	if none.net != 1200*time.Millisecond-splitAsk || none.from != at(1100) || !none.broken() {
		t.Errorf("none: %v", none)
	}
	j := judgeOf4(whole, whole)
	j.still = func(from, to time.Time) time.Duration { return to.Sub(from) } // all the time
	if two, none := j.longest("phone", netip.Addr{}, asked, begin, at(2300)); two.broken() || none.broken() {
		t.Errorf("while the machine stood still: %v, %v", two, none)
	}
}

func TestEveryWayToPartMachinesIsDrawn(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 3: 5, 4: 15, 5: 52} {
		if got := len(partitions(n)); got != want {
			t.Errorf("%d ways to part %d, want %d", got, n, want)
		}
	}
	c := cutter{random: rand.New(rand.NewPCG(1, 1)), machines: machinesOf4, others: []string{lab.Phone, lab.HomeGateway}}
	hosts := judgeOf4(nil, nil).hosts
	parted, oneWay, open := map[string]bool{}, 0, 0
	for range 400 {
		next := c.next()
		var sides string
		for _, m := range machinesOf4 {
			sides += m + ":"
			for _, other := range machinesOf4 {
				if next.sees(m, other) {
					sides += other
				}
			}
			if !next.sees(m, seatAt(m)) {
				t.Fatalf("%s: the seat is elsewhere than %s", next, m)
			}
		}
		if !next.isTransitive(hosts) {
			open++
			continue
		}
		parted[sides] = true
		for w := range next.lost {
			if !next.lost[lab.Way{From: w.To, To: w.From}] {
				oneWay++
				break
			}
		}
	}
	if len(parted) != 15 || oneWay == 0 || open == 0 {
		t.Errorf("%d ways to part, %d one-way, %d not transitive", len(parted), oneWay, open)
	}
}
