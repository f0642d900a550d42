package vips

import (
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// results gathers what every round measured, and reports medians.
type results struct {
	order []string
	by    map[string]*result
}

// result is what was measured of one contender, by unit, which is also its name.
type result struct {
	order []string
	by    map[string][]float64
	many  map[string]bool // measured many times a round: the 99th percentile counts, too
}

func newResults() *results { return &results{by: map[string]*result{}} }

// of is the result of that name.
func (rs *results) of(name string) *result {
	if rs.by[name] == nil {
		rs.order = append(rs.order, name)
		rs.by[name] = &result{by: map[string][]float64{}, many: map[string]bool{}}
	}
	return rs.by[name]
}

// add notes one measurement.
func (r *result) add(unit string, value float64) {
	if r.by[unit] == nil {
		r.order = append(r.order, unit)
	}
	r.by[unit] = append(r.by[unit], value)
}

// times notes many durations, of which the median and the 99th percentile count.
func (r *result) times(what string, all []time.Duration) {
	r.many[what] = true
	for _, d := range all {
		r.add(what, float64(d.Microseconds())/1000)
	}
}

// medians are what counts of the result, by unit.
func (r *result) medians() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, unit := range r.order {
			all := slices.Sorted(slices.Values(r.by[unit]))
			half, most := all[len(all)/2], all[len(all)*99/100]
			switch {
			case !r.many[unit]:
				if !yield(unit, half) {
					return
				}
			case !yield("ms-p50-"+unit, half) || !yield("ms-p99-"+unit, most):
				return
			}
		}
	}
}

// ratio notes how much of what one reached in a unit the other did, round by round, where
// both were measured.
func (rs *results) ratio(one, other, unit string) {
	if rs.by[one] == nil || rs.by[other] == nil {
		return
	}
	of := rs.by[other].by[unit]
	for i, value := range rs.by[one].by[unit] {
		rs.of(one+"÷"+strings.ReplaceAll(other, "/", "_")).add("of-"+unit, value/of[i])
	}
}

// report prints a line for each result.
func (rs *results) report(b *testing.B) {
	for _, name := range rs.order {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // leaves it out
			for unit, value := range rs.by[name].medians() {
				b.ReportMetric(value, unit)
			}
		})
	}
}

// progress tells what one result is after a round: all of them take hours.
func (rs *results) progress(name string, round int) {
	fmt.Fprintf(os.Stderr, "%s, median after round %d of %d:", name, round, *rounds)
	for unit, value := range rs.by[name].medians() {
		fmt.Fprintf(os.Stderr, " %.4g %s", value, unit)
	}
	fmt.Fprintln(os.Stderr)
}
