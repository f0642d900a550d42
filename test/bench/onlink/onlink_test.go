package onlink

import (
	"fmt"
	"slices"
	"testing"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/lab"
)

// story is one measurement of a contender.
type story struct {
	name string
	run  func(*turn)
	ours bool // it asks what only Plinth's agents say, and runs when it is named
}

var allStories = []story{
	{"asked", (*turn).asked, false}, {"cuts", (*turn).cuts, false}, {"ends", (*turn).ends, false},
	{"conflict", (*turn).conflict, false}, {"partition", (*turn).partition, false},
	{"idle", (*turn).idle, true}, {"hostile", (*turn).hostile, true},
}

// BenchmarkOnLink measures each contender in its turn; see the stories for what the units say. Results are
// named contender/family/machines/VIPs: plinth/IPv4/machines=3/VIPs=10.
func BenchmarkOnLink(b *testing.B) {
	chosen := slices.DeleteFunc(slices.Clone(allStories), func(s story) bool {
		return !isNamed(*stories, s.name) && (s.ours || *stories != "")
	})
	if len(chosen) == 0 {
		return
	}
	family := "IPv4"
	if *ipv6 {
		family = "IPv6"
	}
	s := newStand(b, lab.Home(*machines))
	measured := results.New(1)
	for _, c := range contenders(s.Lab) {
		t := s.begin(c, measured.Of(fmt.Sprintf("%s/%s/machines=%d/VIPs=%d", c.name, family, *machines, *vips)))
		for _, story := range chosen {
			if _, ours := c.contender.(*ours); ours || !story.ours {
				story.run(t)
			}
		}
		t.finish()
	}
	measured.Report(b)
}
