package onlink

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"plinth.dev/plinth/test/lab"
)

// cutting is how the hosts of a home are cut off from each other for a while, and who cannot answer.
type cutting struct {
	what      string
	lost      map[lab.Way]bool
	suspended map[string]bool // machines whose agent is stopped: their kernels answer
	frozen    map[string]bool // machines that are stopped whole, as a virtual machine is that is paused
}

func (c cutting) sees(a, b string) bool {
	return a == b || !c.lost[lab.Way{From: a, To: b}] && !c.lost[lab.Way{From: b, To: a}]
}

// side are the hosts that one sees, itself included.
func (c cutting) side(of string, hosts []string) []string {
	return slices.DeleteFunc(slices.Clone(hosts), func(other string) bool { return !c.sees(of, other) })
}

// isTransitive reports whether all that a host sees see each other.
func (c cutting) isTransitive(hosts []string) bool {
	for _, h := range hosts {
		side := c.side(h, hosts)
		for _, a := range side {
			for _, b := range side {
				if !c.sees(a, b) {
					return false
				}
			}
		}
	}
	return true
}

func (c cutting) ways() []lab.Way {
	return slices.SortedFunc(maps.Keys(c.lost), func(a, b lab.Way) int {
		return strings.Compare(a.From+" "+a.To, b.From+" "+b.To)
	})
}

func (c cutting) String() string {
	text := c.what
	for what, machines := range map[string]map[string]bool{"agent suspended": c.suspended, "machine frozen": c.frozen} {
		for _, m := range slices.Sorted(maps.Keys(machines)) {
			text += fmt.Sprintf("; %s: %s", what, m)
		}
	}
	return text
}

// cutter draws cuts of a home, each way to part its machines before any comes again.
type cutter struct {
	random   *rand.Rand
	machines []string
	others   []string // hosts of places, and the gateway
	deck     [][]int  // ways to part the machines that are left
	now      cutting
}

// next draws what follows.
func (c *cutter) next() cutting {
	next := cutting{lost: map[lab.Way]bool{}, suspended: maps.Clone(c.now.suspended), frozen: maps.Clone(c.now.frozen)}
	switch c.random.IntN(8) {
	case 0, 1:
		next.what = "whole"
	case 2, 3, 4:
		next.part(c.groups(), false)
	case 5, 6:
		next.part(c.two(), true)
	default:
		c.pair(&next)
	}
	c.stop(&next.suspended, 6)
	c.stop(&next.frozen, 8)
	for m := range next.frozen {
		delete(next.suspended, m)
	}
	c.now = next
	return next
}

// stop lets go on what was stopped, and stops another one of so many times once.
func (c *cutter) stop(stopped *map[string]bool, seldom int) {
	goesOn := c.random.IntN(2) == 0
	if len(*stopped) > 0 && !goesOn {
		return
	}
	*stopped = map[string]bool{}
	if c.random.IntN(seldom) == 0 {
		(*stopped)[c.machines[c.random.IntN(len(c.machines))]] = true
	}
}

// part loses all that hosts of different groups send each other; oneWay: only what those of the first
// send to those of the others.
func (c *cutting) part(groups [][]string, oneWay bool) {
	for i, from := range groups {
		for k, to := range groups {
			if i == k || oneWay && i > k {
				continue
			}
			for _, a := range from {
				for _, b := range to {
					c.lost[lab.Way{From: a, To: b}] = true
				}
			}
		}
	}
	var names []string
	for _, g := range groups {
		names = append(names, strings.Join(g, " "))
	}
	c.what = strings.Join(names, " | ")
	if oneWay {
		c.what = strings.Join(names, " -x-> ")
	}
}

// groups parts the machines in a way that was not yet, with the hosts at each, and puts every other host
// into one of the groups, or into none.
func (c *cutter) groups() [][]string {
	if len(c.deck) == 0 {
		c.deck = partitions(len(c.machines))[1:] // the first is no cut
		c.random.Shuffle(len(c.deck), func(i, k int) { c.deck[i], c.deck[k] = c.deck[k], c.deck[i] })
	}
	way := c.deck[0]
	c.deck = c.deck[1:]
	groups := make([][]string, slices.Max(way)+1)
	for i, m := range c.machines {
		groups[way[i]] = append(groups[way[i]], m, seatAt(m))
	}
	return c.spread(groups)
}

// two are two groups, none of them without a machine.
func (c *cutter) two() [][]string {
	groups := make([][]string, 2)
	first := c.random.IntN(len(c.machines))
	for i, m := range c.machines {
		g := c.random.IntN(2)
		switch i {
		case first:
			g = 0
		case (first + 1) % len(c.machines):
			g = 1
		}
		groups[g] = append(groups[g], m, seatAt(m))
	}
	for _, h := range c.others {
		g := c.random.IntN(2)
		groups[g] = append(groups[g], h)
	}
	return groups
}

func (c *cutter) spread(groups [][]string) [][]string {
	n := len(groups)
	for _, h := range c.others {
		g := c.random.IntN(n + 1)
		if g == n {
			groups = append(groups, []string{h})
			continue
		}
		groups[g] = append(groups[g], h)
	}
	return groups
}

// pair loses what two machines send each other, or one to the other: all others see both.
func (c *cutter) pair(next *cutting) {
	order := c.random.Perm(len(c.machines))
	a, b := c.machines[order[0]], c.machines[order[1]]
	next.what = a + " -x-> " + b
	next.lost[lab.Way{From: a, To: b}] = true
	if c.random.IntN(2) == 0 {
		next.lost[lab.Way{From: b, To: a}] = true
		next.what = a + " x " + b
	}
	next.what += ", all others see both"
}

// partitions are all ways to part n things: of each the number of its group, from 0. The first has
// all in one group.
func partitions(n int) (all [][]int) {
	var extend func(way []int, groups int)
	extend = func(way []int, groups int) {
		if len(way) == n {
			all = append(all, slices.Clone(way))
			return
		}
		for g := range groups + 1 {
			extend(append(way, g), max(groups, g+1))
		}
	}
	extend(nil, 0)
	return all
}

// seatAt is the host that is always where a machine is, and asks from there.
func seatAt(machine string) string { return "at-" + machine }
