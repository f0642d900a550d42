package document

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestEveryFieldOfTheRawTypesIsReadAndDescribed(t *testing.T) {
	read := map[string]fields{}
	for raw, all := range fieldsByType {
		read[raw.Name()] = all
	}
	for _, doc := range Types() {
		var keys []string
		for _, f := range doc.Fields {
			keys = append(keys, f.Key)
			if f.Doc == "" || f.Key == "" {
				t.Errorf("%s.%s is not described", doc.Name, f.Key)
			}
			if read := read[doc.Name][f.Key].read; read == nil && !strings.Contains(f.Type, "raw") {
				t.Errorf("%s.%s: its form %q has no reader", doc.Name, f.Key, f.Form)
			}
		}
		slices.Sort(keys)
		if got := slices.Sorted(maps.Keys(read[doc.Name])); !slices.Equal(keys, got) {
			t.Errorf("%s has the fields\n%v\nand these are read\n%v", doc.Name, keys, got)
		}
		delete(read, doc.Name)
	}
	for _, stored := range []string{"rawStoredLink", "rawStoredLinkMachine"} { // by Plinth alone
		delete(read, stored)
	}
	for name := range read {
		t.Errorf("%s is no type", name)
	}
}
