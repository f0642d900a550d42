package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/test/components"
)

// row is what the README says of a version.
type row struct {
	patch, etcd string            // "1.34.10", "3.6.4"
	cells       map[string]string // by title of the suite; absent: was not run
	day         string            // on which all of that is true: that of the oldest cell
	commit      string            // of the oldest cell, too
}

// minor is the version without its last number: "1.34".
func (r row) minor() string { return r.patch[:max(0, strings.LastIndex(r.patch, "."))] }

// Between these lines the README is written by [rewrite].
const (
	above = "<!-- versions: make test-versions writes this table -->\n"
	below = "<!-- /versions -->\n"
)

const (
	notRun      = "not run"
	notRecorded = "not recorded"
)

// rewrite puts rows into the README. A version that did not run keeps its row, and a suite
// that did not run what the row says of it, as long as that is of the same patch; a
// version that is pinned no more loses its row.
func rewrite(readme string, pins []components.Pin, ran []row) (string, error) {
	head, rest, ok1 := strings.Cut(readme, above)
	old, tail, ok2 := strings.Cut(rest, below)
	if !ok1 || !ok2 {
		return "", fmt.Errorf("no table of versions between %q and %q", strings.TrimSpace(above), strings.TrimSpace(below))
	}
	before, err := parse(old)
	if err != nil {
		return "", err
	}
	byMinor := map[string]row{}
	for _, r := range before {
		if _, err := components.Choose(pins, r.minor()); err == nil {
			byMinor[r.minor()] = r
		}
	}
	for _, r := range ran {
		byMinor[r.minor()] = r.over(byMinor[r.minor()])
	}
	return head + above + table(slices.Collect(maps.Values(byMinor))) + below + tail, nil
}

// over fills in what an earlier run found out about the same patch.
func (r row) over(earlier row) row {
	if earlier.patch != r.patch || earlier.etcd != r.etcd {
		return r
	}
	cells := map[string]string{}
	day, commit := r.day, r.commit
	for _, s := range suites {
		if said, ok := r.cells[s.title]; ok {
			cells[s.title] = said
		} else if said, ok := earlier.cells[s.title]; ok {
			cells[s.title] = said
			if earlier.day <= day {
				day, commit = earlier.day, earlier.commit
			}
		}
	}
	r.cells, r.day, r.commit = cells, day, commit
	return r
}

// table prints rows, the newest version first.
func table(rows []row) string {
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(number(b), number(a)) })
	lines := [][]string{{"Kubernetes", "etcd"}, {"---", "---"}}
	for _, s := range suites {
		lines[0], lines[1] = append(lines[0], s.title), append(lines[1], "---")
	}
	lines[0], lines[1] = append(lines[0], "commit", "on"), append(lines[1], "---", "---")
	for _, r := range rows {
		line := []string{r.patch, r.etcd}
		for _, s := range suites {
			line = append(line, cmp.Or(r.cells[s.title], notRun))
		}
		lines = append(lines, append(line, cmp.Or(r.commit, notRecorded), r.day))
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
	}
	return b.String()
}

func number(r row) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(r.minor(), "1."))
	return n
}

// parse reads what table has printed, perhaps with other suites.
func parse(text string) ([]row, error) {
	var titles []string
	var rows []row
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case line == "" || n == 1:
			continue
		case n == 0:
			titles = cells
			continue
		case len(cells) != len(titles) || len(cells) < 3:
			return nil, fmt.Errorf("the table of versions has %d columns and a row of %d: %s", len(titles), len(cells), line)
		}
		r := row{patch: cells[0], etcd: cells[1], cells: map[string]string{}}
		for i, said := range cells {
			r.take(titles[i], said)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// take reads a cell below a title. What was not run, or not recorded, is left out.
func (r *row) take(title, said string) {
	switch {
	case title == "Kubernetes" || title == "etcd" || said == notRun || said == notRecorded:
	case title == "on":
		r.day = said
	case title == "commit":
		r.commit = said
	default:
		r.cells[title] = said
	}
}
