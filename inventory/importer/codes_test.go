package importer

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestThePageHasEveryCodeAndSource holds docs/reference/import.md against what there is.
func TestThePageHasEveryCodeAndSource(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/import.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := func(text []byte, form string) (all []string) {
		for _, m := range regexp.MustCompile(form).FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
		return all
	}
	if there, told := codes(code, `Code = "(I\d{4})"`), codes(page, "(?m)^\\| `(I\\d{4})` \\|"); len(there) == 0 || !slices.Equal(there, told) {
		t.Errorf("the codes are %v, the page has %v", there, told)
	}
	told := codes(page, `(?m)^## (.*)$`)
	slices.Sort(told)
	if !slices.Equal(Sources(), told) {
		t.Errorf("the sources are %v, the page has %v", Sources(), told)
	}
}
