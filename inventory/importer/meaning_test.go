package importer

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// rowsOf are the rows that say why a leaf has no meaning: those of the path that was marked.
func rowsOf(o *object, path string) []int {
	for path != "" {
		if _, ok := o.fates[path]; ok {
			break
		}
		path = path[:max(0, parentEnd(path))]
	}
	return spokenOf(o.kind, path, func(withoutMeaning) bool { return true })
}

// importedInTests are sources with documents that have all that has no meaning: those of the goldens, and samples.
func importedInTests(t *testing.T) (all []Options, docs [][]document.Document) {
	t.Helper()
	for _, s := range storiesIn(t, "testdata/*.txtar") {
		all, docs = append(all, s.options), append(docs, s.docs)
	}
	for _, source := range []string{"nodes", "servicelb", "kube-vip"} {
		for _, doc := range kubernetesSamples(t) {
			all, docs = append(all, Options{Sources: []string{source}}), append(docs, []document.Document{doc})
		}
	}
	return all, docs
}

// TestEachRowOfWhatHasNoMeaningIsNeeded by a document of a test, or a sample.
func TestEachRowOfWhatHasNoMeaningIsNeeded(t *testing.T) {
	used := make([]bool, len(leavesWithoutMeaning))
	all, docs := importedInTests(t)
	for i, options := range all {
		for _, o := range draftOf(options, docs[i]).objects {
			for _, l := range o.leaves() {
				if o.fateOf(l.path) == meaningless {
					for _, row := range rowsOf(o, l.path) {
						used[row] = true
					}
				}
			}
		}
	}
	for i, row := range leavesWithoutMeaning {
		if !used[i] {
			t.Errorf("nothing that tests read has it: %s %s", row.kinds, row.path)
		}
		if row.reason == "" || row.path == "" && (row.kinds == "" || row.always) {
			t.Errorf("%s %s: a whole object has no meaning for a reason that its reader finds", row.kinds, row.path)
		}
	}
}

// TestRowsOfWhatHasNoMeaningAreApart lets no two rows speak of one path of one kind, but for those of all kinds.
func TestRowsOfWhatHasNoMeaningAreApart(t *testing.T) {
	seen := map[string]int{}
	for i, row := range leavesWithoutMeaning {
		for _, kind := range strings.Fields(row.kinds) {
			key := fmt.Sprintf("%s %s", kind, row.path)
			if first, twice := seen[key]; twice {
				t.Errorf("%s is in rows %d and %d", key, first, i)
			}
			seen[key] = i
		}
	}
}
