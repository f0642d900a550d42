package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPackagesThatFollowEachOtherBeginAtOnceAndTakeTheirPlaces has a lab of three packages among others: together they
// take longest, and other packages have what places they leave.
func TestPackagesThatFollowEachOtherBeginAtOnceAndTakeTheirPlaces(t *testing.T) {
	type running struct {
		job
		until time.Duration
	}
	var jobs []job
	for _, j := range []struct {
		part, pkg string
		seconds   int
	}{{"", "a", 500}, {"lab", "short", 100}, {"", "b", 350}, {"", "c", 300}, {"", "d", 220}, {"lab", "long", 400}, {"", "e", 100}, {"lab", "middle", 300}} {
		p := part{name: j.part}
		if j.part == "lab" {
			p.places = 2
		}
		jobs = append(jobs, job{p, program{pkg: j.pkg}, time.Duration(j.seconds) * time.Second})
	}
	q := newQueue(jobs, 4)
	var now time.Duration
	var run []running
	var seen []string
	for {
		for j, ok := q.next(); ok; j, ok = q.next() {
			run = append(run, running{j, now + j.usual})
		}
		if len(run) == 0 {
			break
		}
		var names []string
		for _, r := range run {
			names = append(names, r.one.pkg)
		}
		seen = append(seen, strings.Join(names, " "))
		slices.SortFunc(run, func(a, b running) int { return int(a.until - b.until) })
		now = run[0].until
		q.ended(run[0].job)
		run = run[1:]
	}
	want := []string{"long a b", "long a c", "a c middle", "c middle d", "middle d e", "d e short", "e short", "short"}
	if !slices.Equal(seen, want) {
		t.Errorf("side by side ran\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}
