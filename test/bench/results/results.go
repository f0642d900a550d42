// Package results gathers what benchmarks measure whose contenders take turns, and reports
// medians.
package results

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Results are what was measured of each contender.
type Results struct {
	rounds int
	order  []string
	by     map[string]*Result
}

// Result is what was measured of one contender, by unit, which is also its name.
type Result struct {
	order []string
	by    map[string][]float64
	many  map[string]bool // measured many times a round: percentiles count, too
	most  map[string]bool // the largest counts, not the median
}

// New returns results of so many rounds, in which every contender has a turn.
func New(rounds int) *Results { return &Results{rounds: rounds, by: map[string]*Result{}} }

// Of is the result of that name.
func (rs *Results) Of(name string) *Result {
	if rs.by[name] == nil {
		rs.order = append(rs.order, name)
		rs.by[name] = &Result{by: map[string][]float64{}, many: map[string]bool{}, most: map[string]bool{}}
	}
	return rs.by[name]
}

// Add notes one measurement.
func (r *Result) Add(unit string, value float64) {
	if r.by[unit] == nil {
		r.order = append(r.order, unit)
	}
	r.by[unit] = append(r.by[unit], value)
}

// Most notes one measurement of what must not happen in any round: the largest counts.
func (r *Result) Most(unit string, value float64) {
	r.most[unit] = true
	r.Add(unit, value)
}

// Times notes many durations, of which the median, the 90th and the 99th percentile count,
// in milliseconds.
func (r *Result) Times(what string, all []time.Duration) {
	r.many[what] = true
	for _, d := range all {
		r.Add(what, float64(d.Microseconds())/1000)
	}
}

// medians are what counts of the result, by unit: medians, where it is not said otherwise.
func (r *Result) medians() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, unit := range r.order {
			all := slices.Sorted(slices.Values(r.by[unit]))
			if !r.many[unit] {
				counts := all[len(all)/2]
				if r.most[unit] {
					counts = all[len(all)-1]
				}
				if !yield(unit, counts) {
					return
				}
				continue
			}
			for _, percent := range []int{50, 90, 99} {
				if !yield(fmt.Sprintf("ms-p%d-%s", percent, unit), all[len(all)*percent/100]) {
					return
				}
			}
		}
	}
}

// Ratio notes how much of what one reached in a unit the other did, round by round, where
// both were measured.
func (rs *Results) Ratio(one, other, unit string) {
	if rs.by[one] == nil || rs.by[other] == nil {
		return
	}
	of := rs.by[other].by[unit]
	for i, value := range rs.by[one].by[unit] {
		rs.Of(one+"÷"+strings.ReplaceAll(other, "/", "_")).Add("of-"+unit, value/of[i])
	}
}

// Report prints a line for each result.
func (rs *Results) Report(b *testing.B) {
	for _, name := range rs.order {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // leaves it out
			for unit, value := range rs.by[name].medians() {
				b.ReportMetric(value, unit)
			}
		})
	}
}

// Progress tells what one result is after a round: all of them take long.
func (rs *Results) Progress(name string, round int) {
	fmt.Fprintf(os.Stderr, "%s, median after round %d of %d:", name, round, rs.rounds)
	for unit, value := range rs.by[name].medians() {
		fmt.Fprintf(os.Stderr, " %.4g %s", value, unit)
	}
	fmt.Fprintln(os.Stderr)
}
