package document_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// TestCommentsChangeNothing: what is printed with comments reads as what is printed without them.
func TestCommentsChangeNothing(t *testing.T) {
	var docs []document.Document
	for _, name := range []string{"datacenter", "rack-r01", "rack-r02"} {
		data, err := os.ReadFile("../../examples/two-rack/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document.Document{Source: name, Data: data})
	}
	inv, problems := document.Parse(docs...)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	comments := map[string][]string{}
	on := func(path string) { comments[path] = []string{"on " + path + ".", "- name: {", ""} }
	for _, path := range []string{"", "spec.bgp", "spec.communities"} {
		on(path)
	}
	for _, r := range inv.Racks {
		on(inventory.RackPath(r.Name))
		for _, m := range r.Machines {
			on(inventory.MachinePath(r.Name, m.Name))
		}
	}
	for _, p := range inv.Pools {
		on("spec.pools[" + p.Name + "]")
	}
	for _, r := range inv.Routers {
		if r.Rack == "" {
			on("spec.routers[" + r.Name + "]")
		} else {
			on(inventory.RackPath(r.Rack) + ".routers[" + r.Name + "]")
		}
	}
	text := string(document.FormatNoted(inv, comments))
	for path := range comments {
		if strings.Count(text, "# on "+path+".\n") != 1 {
			t.Errorf("the comment on %q is not there once:\n%s", path, text)
		}
	}
	var bare strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			bare.WriteString(line)
		}
	}
	if plain := string(document.Format(inv)); bare.String() != plain {
		t.Errorf("without its comments it is\n%s\nwant\n%s", bare.String(), plain)
	}
	if again, problems := document.Parse(document.Document{Source: "example", Data: []byte(text)}); problems.Err() != nil || !document.Equal(again, inv) {
		t.Errorf("it reads as something else: %v\n%s", problems, text)
	}
}

// TestEveryKeyIsStored: a key that format.go does not write is lost when an inventory is stored, and ReadsBack does not see it, since
// it compares what is written. A key of a type that shares its name with another's is told by that one.
func TestEveryKeyIsStored(t *testing.T) {
	source, err := os.ReadFile("format.go")
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, of := range document.Types() {
		for _, f := range of.Fields {
			switch {
			case strings.Contains(string(source), strconv.Quote(f.Key)):
				stored++
			case f.Key != "password": // it is refused where it stands
				t.Errorf("format.go does not write the key %s of %s", f.Key, of.Name)
			}
		}
	}
	if stored < 80 {
		t.Errorf("only %d keys were found", stored)
	}
}
