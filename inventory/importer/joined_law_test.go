package importer

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/document"
)

// drawable is a document of one object, or of a form that has no objects, with the sources that read it.
type drawable struct {
	doc     document.Document
	sources []string
}

// drawables are the objects of all stories, and those of the tests of joined sources, each as a document by itself.
func drawables(t *testing.T) (all []drawable) {
	t.Helper()
	docs := []document.Document{{Source: "inventory.ini", Data: []byte(joinedHosts)}}
	for _, text := range []string{joinedNode, joinedMLB, joinedCilium, joinedNetBox, joinedAddress, joinedVIP} {
		docs = append(docs, document.Document{Source: "joined", Data: []byte(text)})
	}
	for _, s := range storiesIn(t, "testdata/*.txtar") {
		docs = append(docs, s.docs...)
	}
	for _, doc := range docs {
		all = append(all, apart(t, doc)...)
	}
	return all
}

// apart are the objects of a document, each by itself; one in a form of its own is left as it is.
func apart(t *testing.T, doc document.Document) (all []drawable) {
	t.Helper()
	for _, form := range []string{"ansible", "netbox"} {
		objects, _ := readObjects([]document.Document{doc}, form)
		if slices.ContainsFunc(objects, func(o *object) bool { return o.group() == form }) {
			return []drawable{{doc, []string{form}}}
		}
	}
	objects, unread := readObjects([]document.Document{doc})
	if unread.Failed() {
		return nil // a folder of Ansible's has files that are nothing alone
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o.root)
		if err != nil {
			t.Fatal(err)
		}
		one := drawable{doc: document.Document{Source: doc.Source, Data: text}}
		for _, source := range Sources() {
			if isRead(source, o) {
				one.sources = append(one.sources, source)
			}
		}
		if len(one.sources) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// drawJoined draws sources, and documents that one of them reads at least.
func drawJoined(t *rapid.T, all []drawable) (Options, []document.Document) {
	options := Options{
		Sources:    rapid.SliceOfNDistinct(rapid.SampledFrom(Sources()), 1, 4, rapid.ID).Draw(t, "sources"),
		RackBy:     rapid.SampledFrom([]string{"", "", "rack", "topology.kubernetes.io/zone"}).Draw(t, "rack by"),
		Labels:     rapid.Bool().Draw(t, "labels"),
		PodNetwork: rapid.Bool().Draw(t, "pod network"),
	}
	var fit []drawable
	for _, d := range all {
		if slices.ContainsFunc(d.sources, func(s string) bool { return slices.Contains(options.Sources, s) }) {
			fit = append(fit, d)
		}
	}
	index := rapid.SliceOfNDistinct(rapid.IntRange(0, len(fit)-1), 1, 6, rapid.ID).Draw(t, "documents")
	var docs []document.Document
	for _, i := range index {
		docs = append(docs, fit[i].doc)
	}
	return options, docs
}

// TestTheLawHoldsForWhatIsJoined of any sources: each scalar is carried, noted or without meaning, what comes out is valid, and the same again.
func TestTheLawHoldsForWhatIsJoined(t *testing.T) {
	all := drawables(t)
	if len(all) < 100 {
		t.Fatalf("there are %d documents to draw from", len(all))
	}
	rapid.Check(t, func(t *rapid.T) {
		options, docs := drawJoined(t, all)
		checkLaw(t, options, docs...)
	})
}

// TestWhatHasNoPartInAnImportChangesNothing of the inventory: objects of others, in which order sources are named, how objects are spread over documents, and
// what these are called.
func TestWhatHasNoPartInAnImportChangesNothing(t *testing.T) {
	all := drawables(t)
	rapid.Check(t, func(t *rapid.T) {
		options, docs := drawJoined(t, all)
		text, _ := Import(options, docs...)
		same := func(what string, o Options, docs ...document.Document) {
			if again, notes := Import(o, docs...); !bytes.Equal(withoutComments(again), withoutComments(text)) {
				t.Fatalf("%s changes the inventory:\n%s\nfrom\n%s\n%v", what, again, text, notes)
			}
		}
		stranger := document.Document{Source: "stranger", Data: []byte("{apiVersion: example.com/v1, kind: Stranger, metadata: {name: s}, spec: {addresses: [10.0.0.0/8]}}")}
		same("an object of others", options, slices.Insert(slices.Clone(docs), rapid.IntRange(0, len(docs)).Draw(t, "at"), stranger)...)
		other := options
		other.Sources = slices.Clone(options.Sources)
		slices.Reverse(other.Sources)
		same("the order of the sources' names", other, docs...)
		if slices.Contains(options.Sources, "ansible") || slices.Contains(options.Sources, "netbox") {
			return // the name of a file says what it is of
		}
		var whole []byte
		for _, doc := range docs {
			whole = append(append(whole, "---\n"...), doc.Data...)
		}
		same("all in one document", options, document.Document{Source: "another name", Data: whole})
	})
}

// withoutComments is a text of YAML without its lines of comment.
func withoutComments(text []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimLeft(line, " "), "#") {
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}
