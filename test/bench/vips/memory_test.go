package vips

import (
	"fmt"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/results"
)

// BenchmarkMemory measures how much memory the controller manager takes that was started
// with 0, 3,000 and 10,000 Services present, each with its address, and is at rest ("MB"),
// and how much of it is not the program's own file ("MB-heap").
func BenchmarkMemory(b *testing.B) {
	s := newStand(b)
	measured, present := results.New(*rounds), 0
	for _, n := range sizes(0, 3000, 10_000) {
		s.populate(present, n)
		present = n
		for i := range *rounds {
			for _, c := range s.contenders() {
				if !c.ours {
					continue
				}
				name := fmt.Sprintf("%s/%d", c.name, n)
				p := c.start(s)
				s.quiet(s.writes())
				time.Sleep(atRest)
				measured.Of(name).Add("MB", s.memory(p))
				measured.Of(name).Add("MB-heap", s.heap(p))
				p.Kill()
				measured.Progress(name, i+1)
			}
		}
		measured.Ratio(fmt.Sprintf("plinth/%d", n), fmt.Sprintf("before/%d", n), "MB-heap")
	}
	measured.Report(b)
}
