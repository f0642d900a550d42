package results

import (
	"fmt"
	"maps"
	"slices"
)

// Connections is what became of those that clients opened, of all rounds.
type Connections struct {
	Opened  int
	Lost    int // or answered after more than half a second: a SYN was sent again
	Cut     int // excused: reset, or sent back, when a router moved them
	Stalled int // excused: nobody can tell, since this machine stood still meanwhile
}

// Tally is what became of connections, by the name of the result.
type Tally map[string]Connections

// Add adds to a result.
func (t Tally) Add(name string, more Connections) {
	c := t[name]
	t[name] = Connections{c.Opened + more.Opened, c.Lost + more.Lost, c.Cut + more.Cut, c.Stalled + more.Stalled}
}

// Into notes all as measurements: "connections", "lost", "cut" and "stalled".
func (t Tally) Into(all *Results) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		r, c := all.Of(name), t[name]
		r.Add("connections", float64(c.Opened))
		r.Add("lost", float64(c.Lost))
		r.Add("cut", float64(c.Cut))
		r.Add("stalled", float64(c.Stalled))
	}
}

// TooManyExcused is an error where none of a result's connections were opened, or where so large a share of them is
// excused, from 0 to 1, that the rest says little.
func (t Tally) TooManyExcused(most float64) error {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		switch c := t[name]; {
		case c.Opened == 0:
			return fmt.Errorf("%s: no connection was opened", name)
		case float64(c.Cut+c.Stalled) > most*float64(c.Opened):
			return fmt.Errorf("%s: of %d connections %d were cut and %d stalled, more than %.0f %%", name, c.Opened, c.Cut, c.Stalled, 100*most)
		}
	}
	return nil
}
