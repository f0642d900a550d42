package main

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// simulated is an outcome, and what it leaves out.
type simulated struct {
	preview.Outcome
	notKnown []string
}

func (s simulated) write(out io.Writer, output string) error {
	switch output {
	case "json":
		return printJSON(out, s.json())
	case "markdown":
		return writeLines(out, s.markdown())
	}
	return writeLines(out, s.text())
}

// parts returns the differences in sections, the worst first.
func (s simulated) parts() []section {
	return []section{
		{"Unreachable", append(s.lostLines(), podLines(s.Outcome, true)...)},
		{"Left with one machine or one router", s.singleLines()},
		{"Next hops", s.hopLines()},
		{"Ways of pods", podLines(s.Outcome, false)},
	}
}

func (s simulated) text() (out []string) {
	for _, p := range s.parts() {
		if len(p.lines) > 0 {
			out = append(out, p.title+":")
			for _, l := range p.lines {
				out = append(out, "  "+l)
			}
		}
	}
	if s.Empty() {
		out = append(out, "nothing differs")
	}
	for _, n := range s.notKnown {
		out = append(out, "Not known: "+n)
	}
	return out
}

// markdown is a comment for a merge request.
func (s simulated) markdown() []string {
	out := []string{"## What it would do"}
	if s.Empty() {
		out = append(out, "", "Nothing differs.")
	}
	for _, p := range s.parts() {
		if len(p.lines) > 0 {
			out = append(out, "", fmt.Sprintf("### %s (%d)", p.title, len(p.lines)), "")
			for _, l := range p.lines {
				out = append(out, "- "+l)
			}
		}
	}
	return append(out, notKnownInMarkdown(s.notKnown)...)
}

func notKnownInMarkdown(notKnown []string) (out []string) {
	for _, n := range notKnown {
		out = append(out, "", "Not known: "+n+".")
	}
	return out
}

// holders names the Services that hold a VIP.
func holders(keys []lb.ServiceKey) string { return "service " + strings.Join(lines(keys), ", ") }

func (s simulated) lostLines() (out []string) {
	for _, c := range s.Lost() {
		out = append(out, edit.LostVIP{Addr: c.Is.Addr, Services: lines(c.Is.Services), Why: c.Why}.String())
	}
	for _, rack := range s.Racks {
		out = append(out, fmt.Sprintf("rack %s has no machine left that runs pods", rack))
	}
	return out
}

func (s simulated) singleLines() (out []string) {
	for _, change := range s.VIPs {
		machine, router := change.LeftWithOne()
		if machine != "" {
			out = append(out, fmt.Sprintf("%s has one machine left for %s: %s", holders(change.Is.Services), change.Is.Addr, machine))
		}
		if router != "" {
			out = append(out, fmt.Sprintf("%s has one router left for %s: %s", holders(change.Is.Services), change.Is.Addr, router))
		}
	}
	return out
}

func (s simulated) hopLines() (out []string) {
	for _, c := range s.Hops() {
		to := "router " + c.Router
		if c.OnLink() {
			to = c.Router
		}
		out = append(out, fmt.Sprintf("%s, %s: %s -> %s", to, vipsOf(c.VIPs), hopText(c.Was), hopText(c.Is)))
	}
	return out
}

// hopsNamed is how many next hops are named: what a person takes in at a glance.
const hopsNamed = 8

func hopText(hops preview.Hops) string {
	switch {
	case len(hops) == 0:
		return "no next hop"
	case len(hops) > hopsNamed:
		return fmt.Sprintf("%d next hops", len(hops))
	}
	return hops.String()
}

func vipsOf(all []netip.Addr) string { return shortened(lines(all), "VIP") }

// namedAtMost is how many of a list are named.
const namedAtMost = 4

// counted names some, and counts them where they are many.
func shortened(names []string, one string) string {
	if len(names) <= namedAtMost {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%d %ss (%s ...)", len(names), one, strings.Join(names[:namedAtMost], ", "))
}

// podLines tell of paths that are cut, or of those that only go another way.
func podLines(o preview.Outcome, cut bool) (out []string) {
	groups := map[string][]preview.PodChange{}
	for _, c := range o.Pods {
		if c.Cut() == cut {
			what := podChange(c)
			groups[what] = append(groups[what], c)
		}
	}
	for _, what := range sortedKeys(groups) {
		for _, racks := range pairsOfRacks(groups[what]) {
			out = append(out, fmt.Sprintf("pods of %s: %s", racks, what))
		}
	}
	return out
}

// podChange returns the change of a path between pods, without the part that it has in common with others.
func podChange(change preview.PodChange) string {
	if change.Cut() {
		var reasons []string
		for _, w := range change.Is {
			if w.Kind == preview.NoWay {
				reasons = append(reasons, w.String())
			}
		}
		some := ""
		if !change.Lost() {
			some = "some "
		}
		return some + strings.Join(reasons, "; ")
	}
	was, is := routersOf(change.Was), routersOf(change.Is)
	var out []string
	if k := kindsOf(change.Is); k != kindsOf(change.Was) {
		out = append(out, cmp.Or(kindsOf(change.Was), "none")+" -> "+cmp.Or(k, "none"))
	}
	if gone := without(was, is); len(gone) > 0 && len(is) > 0 {
		out = append(out, "without "+strings.Join(gone, ", "))
	}
	if more := without(is, was); len(more) > 0 && len(was) > 0 {
		out = append(out, "with "+strings.Join(more, ", "))
	}
	return cmp.Or(strings.Join(out, ", "), "other machines by other ways than before")
}

func kindsOf(ways []preview.Way) string {
	var all []string
	for _, w := range ways {
		if k := w.Family.String() + " " + string(w.Kind); !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return strings.Join(all, ", ")
}

func routersOf(ways []preview.Way) (all []string) {
	for _, w := range ways {
		all = append(all, slices.Concat(w.Out, w.In)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func without(all, those []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(those, s) })
}

// pairsOfRacks names the racks of some paths: first the rack that is part of most.
func pairsOfRacks(paths []preview.PodChange) (out []string) {
	for len(paths) > 0 {
		count := map[string]int{}
		for _, p := range paths {
			count[p.From]++
			if p.To != p.From {
				count[p.To]++
			}
		}
		rack := slices.MaxFunc(sortedKeys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(b, a)) })
		var to, from []string
		var left []preview.PodChange
		for _, change := range paths {
			switch rack {
			case change.From:
				to = append(to, change.To)
				if change.To == rack {
					from = append(from, change.From)
				}
			case change.To:
				from = append(from, change.From)
			default:
				left = append(left, change)
			}
		}
		out, paths = append(out, racksText(rack, to, from)...), left
	}
	return out
}

func racksText(rack string, to, from []string) (out []string) {
	if slices.Equal(to, from) {
		if slices.Equal(to, []string{rack}) {
			return []string{"rack " + rack + " among each other"}
		}
		return []string{fmt.Sprintf("rack %s and rack %s, both ways", rack, shortened(to, "rack"))}
	}
	if len(to) > 0 {
		out = append(out, fmt.Sprintf("rack %s to rack %s", rack, shortened(to, "rack")))
	}
	if len(from) > 0 {
		out = append(out, fmt.Sprintf("rack %s to rack %s", shortened(from, "rack"), rack))
	}
	return out
}

// eachTable is a table of the losses by the failure of each thing of a kind.
type eachTable struct {
	Kind     string
	Rows     []eachRow
	NotKnown []string
}

// eachRow is the losses by the failure of one thing.
type eachRow struct {
	Fails    string   `json:"fails"`
	VIPsLost []string `json:"vipsLost"`
	Single   int      `json:"vipsLeftWithOne"` // machine or router
	Shifted  int      `json:"vipsShifted"`     // VIPs that others announce
	PodPairs int      `json:"podPathsCut"`     // of racks, each direction for itself
	Racks    []string `json:"racksWithoutMachine"`
	cut      bool
}

func (r eachRow) loses() bool { return r.cut }

func rowOf(name string, outcome preview.Outcome) eachRow {
	row := eachRow{Fails: name, VIPsLost: []string{}, Racks: append([]string{}, outcome.Racks...), cut: outcome.Loses()}
	for _, c := range outcome.Lost() {
		row.VIPsLost = append(row.VIPsLost, c.Is.Addr.String())
	}
	for _, c := range outcome.VIPs {
		if machine, router := c.LeftWithOne(); machine+router != "" {
			row.Single++
		}
		if c.Shifts() && c.Why == "" {
			row.Shifted++
		}
	}
	for _, c := range outcome.Pods {
		if c.Cut() {
			row.PodPairs++
		}
	}
	return row
}

func (t eachTable) write(out io.Writer, output string) error {
	switch output {
	case "json":
		return printJSON(out, map[string]any{"each": append([]eachRow{}, t.Rows...), "notKnown": append([]string{}, t.NotKnown...)})
	case "markdown":
		return writeLines(out, t.markdown())
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, strings.ToUpper(strings.Join(columnsOfEach, "\t")))
	for _, r := range t.Rows {
		fmt.Fprintln(table, strings.Join(r.cells(), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, n := range t.NotKnown {
		if _, err := fmt.Fprintln(out, "Not known: "+n); err != nil {
			return err
		}
	}
	return nil
}

var columnsOfEach = []string{"fails", "VIPs lost", "left with one", "shifted", "pod paths cut", "which VIPs are lost"}

func (r eachRow) cells() []string {
	return []string{r.Fails, fmt.Sprint(len(r.VIPsLost)), fmt.Sprint(r.Single), fmt.Sprint(r.Shifted), fmt.Sprint(r.PodPairs), cmp.Or(shortened(r.VIPsLost, "VIP"), "-")}
}

func (t eachTable) markdown() []string {
	out := []string{"## If one " + t.Kind + " fails", "", "| " + strings.Join(columnsOfEach, " | ") + " |", "|---|---|---|---|---|---|"}
	for _, r := range t.Rows {
		out = append(out, "| "+strings.Join(r.cells(), " | ")+" |")
	}
	return append(out, notKnownInMarkdown(t.NotKnown)...)
}
