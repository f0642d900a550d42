package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"plinth.dev/plinth/test/gotest"
)

// slowGate is how long the gate takes at most on two quiet processors, doubled: beyond it the report says which
// part grew.
const slowGate = 20 * time.Minute

// lines is how long a report is at most.
const lines = 20

// run is all that happened.
type run struct {
	took     time.Duration
	cpus     int
	busy     float64 // share of the processors' time
	times    int     // that the machine stood still
	stood    time.Duration
	longest  time.Duration
	parts    []taken // the time of their packages, which run side by side
	outcomes []outcome
	before   []outcome                // of tests that were run once more, the first time
	usual    map[string]time.Duration // of tests, by package and name
}

// taken is how long a part took.
type taken struct {
	part
	took time.Duration
}

// failed are the tests that failed, notJudged those that failed twice while programs lacked a processor.
func (r run) failed() []outcome    { return r.bad(func(o outcome) bool { return !r.twice(o) }) }
func (r run) notJudged() []outcome { return r.bad(r.twice) }

// twice reports whether a failed test failed before, and programs lacked a processor both times.
func (r run) twice(o outcome) bool {
	return len(o.starved) > 0 && slices.ContainsFunc(r.before, func(b outcome) bool { return b.part == o.part && key(b) == key(o) })
}

func (r run) bad(which func(outcome) bool) (bad []outcome) {
	for _, o := range r.outcomes {
		if !o.good() && which(o) {
			bad = append(bad, o)
		}
	}
	slices.SortStableFunc(bad, func(a, b outcome) int { return strings.Compare(a.part+a.Package+a.Test, b.part+b.Package+b.Test) })
	return bad
}

// report writes what there is to know in at most 20 lines. The last one is how many tests passed and failed.
func (r run) report(to io.Writer) {
	var head, tail []string
	bad := r.failed()
	var times []string
	for _, p := range r.parts {
		times = append(times, fmt.Sprintf("%s %s", p.name, clock(p.took)))
	}
	head = append(head, fmt.Sprintf("== %d of %d failed in %s; %d processors, busy %.0f %%; stood still %d times, %.1f s in all, %.1f s at the most",
		len(bad), len(r.outcomes), clock(r.took), r.cpus, 100*r.busy, r.times, r.stood.Seconds(), r.longest.Seconds()))
	head = append(head, "   "+strings.Join(times, ", "))
	if r.took > slowGate {
		for _, p := range r.parts {
			if usual := time.Duration(p.usual) * time.Minute; p.took > 2*usual {
				tail = append(tail, fmt.Sprintf("%s took %s, which is %.1f times what it takes on a quiet machine", p.name, clock(p.took), p.took.Seconds()/usual.Seconds()))
			}
		}
	}
	if slow := r.slower(); slow != "" {
		tail = append(tail, "slower than twice their usual time: "+slow)
	}
	starved := r.notJudged()
	if len(r.before) > 0 {
		tail = append(tail, "run once more, since programs waited for a processor: "+whoWaited(r.before))
	}
	if len(starved) > 0 {
		tail = append(tail, "not judged, since they waited again: "+whoWaited(starved))
		if same := r.samePlace(starved); same != "" {
			tail = append(tail, "of these failed at the same place both times, as a fault does: "+same)
		}
	}
	last := fmt.Sprintf("%d passed, %d failed", len(r.outcomes)-len(bad)-len(starved), len(bad))
	if len(starved) > 0 {
		last += fmt.Sprintf(", %d not judged", len(starved))
	}
	tail = append(tail, last)
	var middle []string
	for i, o := range bad {
		one := o.report()
		if len(head)+len(middle)+len(one)+len(tail) >= lines && i < len(bad) {
			middle = append(middle, fmt.Sprintf("and %d more, in bin/tests/failed.txt", len(bad)-i))
			break
		}
		middle = append(middle, one...)
	}
	for _, line := range slices.Concat(head, middle, tail) {
		fmt.Fprintln(to, line)
	}
}

// place is where a reason of a failure is from.
var place = regexp.MustCompile(`^\S+_test\.go:\d+`)

// samePlace names those of some tests that failed where they did before, with the place.
func (r run) samePlace(all []outcome) string {
	var names []string
	for _, o := range all {
		at := place.FindString(o.Reason())
		if at != "" && slices.ContainsFunc(r.before, func(b outcome) bool {
			return b.part == o.part && key(b) == key(o) && place.FindString(b.Reason()) == at
		}) {
			names = append(names, o.Test+" ("+at+")")
		}
	}
	return cut(strings.Join(names, ", "), 600)
}

// whoWaited names tests, each with the program that waited longest.
func whoWaited(all []outcome) string {
	var names []string
	for _, o := range all {
		names = append(names, fmt.Sprintf("%s (%s for %.1f s)", o.Test, o.starved[0].Who, o.starved[0].Took.Seconds()))
	}
	return cut(strings.Join(names, ", "), 600)
}

// report is what failed and why, and how to see it again.
func (o outcome) report() []string {
	name := short(o.Package) + " " + o.Test
	if o.Package == "" {
		name = o.Test
	}
	if len(o.Parts) > 0 {
		name += "/" + o.Parts[0]
	}
	if n := len(o.Parts); n > 1 {
		name += fmt.Sprintf(" and %d more of its subtests", n-1)
	}
	first := fmt.Sprintf("FAIL %s  %.1f s  %s", strings.TrimSpace(name), o.Took.Seconds(), cut(o.Reason(), 300))
	if o.Outcome == gotest.Broken || o.Outcome == gotest.Skipped {
		first = fmt.Sprintf("FAIL %s  %s  %s", strings.TrimSpace(name), o.Outcome, cut(o.Reason(), 300))
	}
	second := "     again: " + o.again + "   all it printed: " + o.log
	if o.stood > 0 {
		second += fmt.Sprintf("   (the machine stood still for %.1f s meanwhile)", o.stood.Seconds())
	}
	return []string{first, second}
}

// slower names tests that took twice as long as usual, those that grew most first.
func (r run) slower() string {
	var slow []outcome
	for _, o := range r.outcomes {
		if usual := r.usual[key(o)]; o.good() && usual > time.Second && o.Took > 2*usual {
			slow = append(slow, o)
		}
	}
	slices.SortFunc(slow, func(a, b outcome) int {
		return int((b.Took - r.usual[key(b)]) - (a.Took - r.usual[key(a)]))
	})
	var names []string
	for i, o := range slow {
		if i == 6 {
			names = append(names, fmt.Sprintf("%d more", len(slow)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s %.0f s (%.0f)", o.Test, o.Took.Seconds(), r.usual[key(o)].Seconds()))
	}
	return strings.Join(names, ", ")
}

// all writes everything that failed with all its output, and the seconds of each test.
func (r run) all(folder string) error {
	var failed, times strings.Builder
	for _, o := range slices.Concat(r.failed(), r.notJudged(), r.before) {
		fmt.Fprintf(&failed, "%s\n%s\n\n", strings.Join(o.report(), "\n"), strings.Join(o.Output, "\n"))
	}
	times.WriteString("part\tpackage\ttest\tseconds\toutcome\n")
	sorted := slices.Clone(r.outcomes)
	slices.SortFunc(sorted, func(a, b outcome) int { return strings.Compare(a.part+" "+key(a), b.part+" "+key(b)) })
	for _, o := range sorted {
		fmt.Fprintf(&times, "%s\t%s\t%s\t%.2f\t%s\n", o.part, short(o.Package), o.Test, o.Took.Seconds(), o.Outcome)
	}
	if err := os.WriteFile(filepath.Join(folder, "failed.txt"), []byte(failed.String()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "times.tsv"), []byte(times.String()), 0o644)
}

func key(o outcome) string { return short(o.Package) + " " + o.Test }

// usualTimes reads what all wrote, of an earlier run: how long each test took, and each package with all of them.
func usualTimes(text string) map[string]time.Duration {
	usual := map[string]time.Duration{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		var seconds float64
		if len(f) < 4 {
			continue
		}
		if _, err := fmt.Sscan(f[3], &seconds); err == nil {
			usual[f[1]+" "+f[2]] = time.Duration(seconds * float64(time.Second))
			usual[f[1]] += time.Duration(seconds * float64(time.Second))
		}
	}
	return usual
}

// clock prints a time as people say it.
func clock(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
