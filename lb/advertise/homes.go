package advertise

import (
	"cmp"
	"net/netip"
	"slices"
)

// places is the number of machines that are a VIP's homes.
const places = 3

// Home is a VIP of a segment whose homes are to be chosen.
type Home struct {
	VIP  netip.Addr
	Held []string // its homes until now; empty: it has none yet
	Pin  string   // the machine that its Service prefers; empty: none
	May  []string // machines that an advertisement of the pool announces it from; nil: all
}

// Homes chooses for each VIP of a segment the machines that are to answer for it, in order: three of those that are active.
//
// In each place the machines have as many VIPs as each other, give or take one, as far as pins and
// advertisements let them; so a machine that dies leaves its VIPs to all the others alike. What a VIP has it keeps
// unless its machine left, or another one would have less by two. The same input in another
// order gives the same homes.
func Homes(machines []string, all []Home) map[netip.Addr][]string {
	machines = slices.Sorted(slices.Values(machines))
	all = slices.SortedFunc(slices.Values(all), func(a, b Home) int { return a.VIP.Compare(b.VIP) })
	out := make(map[netip.Addr][]string, len(all))
	for place := range places {
		c := chooser{machines: machines, all: all, place: place, before: out, chosen: map[netip.Addr]string{}, count: map[string]int{}}
		c.keep()
		c.fill()
		c.level()
		for vip, machine := range c.chosen {
			out[vip] = append(out[vip], machine)
		}
	}
	return out
}

// chooser chooses the machines of one place.
type chooser struct {
	machines []string
	all      []Home
	place    int
	before   map[netip.Addr][]string // what the places before this one have
	chosen   map[netip.Addr]string
	count    map[string]int
}

// allows reports whether a machine can be chosen for a VIP.
func (c *chooser) allows(h *Home, machine string) bool {
	if c.pinned(h) {
		return machine == h.Pin
	}
	return (h.May == nil || slices.Contains(h.May, machine)) && !slices.Contains(c.before[h.VIP], machine)
}

// pinned reports whether the VIP has a machine of its own in this place.
func (c *chooser) pinned(h *Home) bool {
	return c.place == 0 && h.Pin != "" && slices.Contains(c.machines, h.Pin) && (h.May == nil || slices.Contains(h.May, h.Pin))
}

func (c *chooser) choose(h *Home, machine string) {
	if was, had := c.chosen[h.VIP]; had {
		c.count[was]--
	}
	c.chosen[h.VIP] = machine
	c.count[machine]++
}

// keep leaves the machines that VIPs have in this place.
func (c *chooser) keep() {
	for i := range c.all {
		h := &c.all[i]
		switch {
		case c.pinned(h):
			c.choose(h, h.Pin)
		case c.place < len(h.Held) && slices.Contains(c.machines, h.Held[c.place]) && c.allows(h, h.Held[c.place]):
			c.choose(h, h.Held[c.place])
		}
	}
}

// fill gives the others to the machine with the fewest in this place; of these to that which the
// VIP has among its homes already, or which has the fewest behind the same first home.
func (c *chooser) fill() {
	behind := map[[2]string]int{}
	for index := range c.all {
		if machine, has := c.chosen[c.all[index].VIP]; has {
			behind[c.pair(&c.all[index], machine)]++
		}
	}
	for index := range c.all {
		home := &c.all[index]
		if _, has := c.chosen[home.VIP]; has {
			continue
		}
		may := slices.DeleteFunc(slices.Clone(c.machines), func(machine string) bool { return !c.allows(home, machine) })
		if len(may) == 0 {
			continue
		}
		machine := slices.MinFunc(may, func(a, b string) int {
			return cmp.Or(cmp.Compare(c.count[a], c.count[b]), cmp.Compare(heldAt(home, a), heldAt(home, b)), cmp.Compare(behind[c.pair(home, a)], behind[c.pair(home, b)]), preference(home.VIP, a, b))
		})
		c.choose(home, machine)
		behind[c.pair(home, machine)]++
	}
}

// heldAt returns the place of a machine among the homes of a VIP until now.
func heldAt(h *Home, machine string) int {
	if i := slices.Index(h.Held, machine); i >= 0 {
		return i
	}
	return places
}

func (c *chooser) pair(h *Home, machine string) [2]string {
	if c.place == 0 {
		return [2]string{"", machine}
	}
	return [2]string{c.before[h.VIP][0], machine}
}

// level moves VIPs until no machine has two more than another that could have one of them, be it by
// way of others.
func (c *chooser) level() {
	for c.levelOnce() {
	}
}

func (c *chooser) levelOnce() bool {
	most := slices.SortedFunc(slices.Values(c.machines), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.count[b], c.count[a]), cmp.Compare(a, b))
	})
	for _, from := range most {
		before := c.paths(from)
		for i := len(most) - 1; i >= 0 && c.count[most[i]] <= c.count[from]-2; i-- {
			if path := pathTo(before, from, most[i]); path != nil {
				c.moveAlong(path)
				return true
			}
		}
	}
	return false
}

// paths finds, from one machine, the machines over which a VIP could be handed on to each other one: by machine, the
// one before it.
func (c *chooser) paths(from string) map[string]string {
	before := map[string]string{from: from}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, to := range c.machines {
			if _, seen := before[to]; !seen && c.movable(queue[0], to) != nil {
				before[to] = queue[0]
				queue = append(queue, to)
			}
		}
	}
	return before
}

func pathTo(before map[string]string, from, to string) []string {
	if _, reached := before[to]; !reached {
		return nil
	}
	path := []string{to}
	for path[0] != from {
		path = slices.Insert(path, 0, before[path[0]])
	}
	return path
}

// moveAlong hands one VIP on from each machine of a path to the next, the last step first.
func (c *chooser) moveAlong(path []string) {
	for i := len(path) - 2; i >= 0; i-- {
		c.choose(c.movable(path[i], path[i+1]), path[i+1])
	}
}

// movable returns the VIP of a machine that another one could have with the best right; nil: there is none.
func (c *chooser) movable(from, to string) *Home {
	var best *Home
	for i := range c.all {
		h := &c.all[i]
		if c.chosen[h.VIP] != from || c.pinned(h) || !c.allows(h, to) {
			continue
		}
		if best == nil || rendezvous(h.VIP, to) > rendezvous(best.VIP, to) {
			best = h
		}
	}
	return best
}
