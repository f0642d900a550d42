package docs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowsBecomeWords(t *testing.T) {
	const page = "# Page\n\n## Of BGP\n\nText | with a bar.\n\n| cause | what it means |\n|---|---|\n| `NoAnswer` | Packets get [no answer](x.md#y): `a\\|b`. |\n| `--a`, `--b` | Two. |\n| `x_<n>`, or `y` | One. |\n| none | No name. |\n\n" +
		"## Metrics\n\n| name | type | labels | meaning |\n|---|---|---|---|\n| `plinth_up` | gauge |  | 1 if up. |\n| `plinth_up == 0` | gauge | | An expression. |\n"
	want := []Word{
		{Name: "NoAnswer", Kind: "cause", Page: "p", Section: "Of BGP", Text: "Packets get no answer: `a|b`."},
		{Name: "--a", Kind: "cause", Page: "p", Section: "Of BGP", Text: "Two."},
		{Name: "--b", Kind: "cause", Page: "p", Section: "Of BGP", Text: "Two."},
		{Name: "x_<n>", Kind: "cause", Page: "p", Section: "Of BGP", Text: "One."},
		{Name: "plinth_up", Kind: "name", Page: "p", Section: "Metrics", Facts: []Fact{{"type", "gauge"}}, Text: "1 if up."},
	}
	if diff := cmp.Diff(want, wordsOf("p", page)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryPageHasWordsAndEveryWordAMeaning(t *testing.T) {
	found := map[string]int{}
	for _, w := range Words() {
		found[w.Page]++
		if w.Text == "" && len(w.Facts) == 0 || strings.Contains(w.Text, "](") {
			t.Errorf("%+v", w)
		}
	}
	entries, err := pages.ReadDir("reference")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if found["reference/"+e.Name()] < 3 {
			t.Errorf("%s: %d words", e.Name(), found["reference/"+e.Name()])
		}
	}
}
