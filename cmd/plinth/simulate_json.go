package main

import (
	"maps"
	"slices"

	"plinth.dev/plinth/preview"
)

type hopsJSON struct {
	Router string    `json:"router"`
	VIPs   []string  `json:"vips"`
	Before []hopJSON `json:"before"`
	After  []hopJSON `json:"after"`
}

type hopJSON struct {
	Machine string `json:"machine"`
	Percent int    `json:"percent"`
}

type podsJSON struct {
	From   string    `json:"from"`
	To     string    `json:"to"`
	Cut    bool      `json:"cut"`
	Before []wayJSON `json:"before"`
	After  []wayJSON `json:"after"`
}

type wayJSON struct {
	Family string   `json:"family"`
	Kind   string   `json:"kind"`
	Out    []string `json:"out,omitempty"`
	In     []string `json:"in,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Pairs  int      `json:"pairs"`
}

type vipJSON struct {
	Address  string   `json:"address"`
	Services []string `json:"services"`
	Why      string   `json:"why,omitempty"`
	// LeftWith... is what all its traffic depends on, and did not before.
	LeftWithMachine string `json:"leftWithMachine,omitempty"`
	LeftWithRouter  string `json:"leftWithRouter,omitempty"`
}

// json returns the differences in the form that scripts read.
func (s simulated) json() map[string]any {
	lost, changed := []vipJSON{}, []vipJSON{}
	for _, c := range s.VIPs {
		machine, router := c.LeftWithOne()
		v := vipJSON{c.Is.Addr.String(), lines(c.Is.Services), c.Why, machine, router}
		if c.Why != "" {
			lost = append(lost, v)
		} else {
			changed = append(changed, v)
		}
	}
	hops := converted(s.Hops(), func(c preview.HopChange) hopsJSON {
		return hopsJSON{c.Router, lines(c.VIPs), converted(c.Was, hopIn), converted(c.Is, hopIn)}
	})
	pods := converted(s.Pods, func(c preview.PodChange) podsJSON {
		return podsJSON{c.From, c.To, c.Cut(), converted(c.Was, wayIn), converted(c.Is, wayIn)}
	})
	return map[string]any{
		"lost": lost, "changed": changed, "nextHops": hops, "pods": pods,
		"racksWithoutMachine": append([]string{}, s.Racks...), "notKnown": append([]string{}, s.notKnown...),
	}
}

func hopIn(h preview.Hop) hopJSON { return hopJSON(h) }

func wayIn(w preview.Way) wayJSON {
	return wayJSON{w.Family.String(), string(w.Kind), w.Out, w.In, w.Reason, w.Pairs}
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
