package importer

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// shipped finds the documents that a project ships, by the path of its module.
type shipped map[string]func(*testing.T) []document.Document

// sampleGolden is what is to come out of some documents that projects ship. These stay in their modules: the archive has their names alone, each in
// a line of the comment, after the sources.
type sampleGolden struct {
	story
	names [][2]string // module and document
}

// sampleGoldens are all that there are.
func sampleGoldens(t *testing.T) (all []sampleGolden) {
	t.Helper()
	for _, s := range storiesIn(t, "testdata/samples/*.txtar") {
		g := sampleGolden{story: s}
		for _, line := range strings.Split(strings.TrimSpace(s.comment), "\n")[1:] {
			module, name, ok := strings.Cut(line, " ")
			if !ok {
				t.Fatalf("%s: %q is no module and document", s.path, line)
			}
			g.names = append(g.names, [2]string{module, name})
		}
		all = append(all, g)
	}
	return all
}

// of reports whether all documents are of some modules.
func (g sampleGolden) of(from shipped) bool {
	return !slices.ContainsFunc(g.names, func(name [2]string) bool { return from[name[0]] == nil })
}

// documentsNamed are the documents of some modules by their names, and those of each folder, page or archive together.
func documentsNamed(t *testing.T, from shipped) map[[2]string][]byte {
	named := map[[2]string][]byte{}
	for module, find := range from {
		docs := find(t)
		for _, doc := range append(docs, together(docs)...) {
			key := [2]string{module, doc.Source}
			if have, twice := named[key]; twice && !bytes.Equal(have, doc.Data) {
				t.Fatalf("%s has two documents %s", module, doc.Source)
			}
			named[key] = doc.Data
		}
	}
	return named
}

// checkSampleGoldens compares what comes out of the documents of some modules with what is written down, and returns all documents that were imported.
func checkSampleGoldens(t *testing.T, from shipped) (read []document.Document, goldens []sampleGolden) {
	t.Helper()
	named := documentsNamed(t, from)
	goldens = slices.DeleteFunc(sampleGoldens(t), func(g sampleGolden) bool { return !g.of(from) })
	for _, g := range goldens {
		var docs []document.Document
		for _, name := range g.names {
			data, there := named[name]
			if !there {
				t.Fatalf("%s: %s has no document %s", g.path, name[0], name[1])
			}
			docs = append(docs, document.Document{Source: name[1], Data: data})
		}
		read = append(read, docs...)
		t.Run(filepath.Base(g.path), func(t *testing.T) { g.check(t, docs) })
	}
	return read, goldens
}

func (g sampleGolden) check(t *testing.T, docs []document.Document) {
	text, notes := Import(g.options, docs...)
	if text == nil && !notes.Failed() {
		t.Error("nothing is written, and no note is an error")
	}
	g.hold(t, text, notes)
}

// ownModules are those that Plinth's own go.mod has.
var ownModules = shipped{"go.universe.tf/metallb": metalLBSamples, "k8s.io/api": kubernetesSamples}

// TestGoldensOfSamples reads those of MetalLB and Kubernetes; with the tag samples all are read.
func TestGoldensOfSamples(t *testing.T) {
	if read, _ := checkSampleGoldens(t, ownModules); len(read) < 40 {
		t.Errorf("%d documents have a golden", len(read))
	}
}

// kindsWithGoldens are the kinds of objects that goldens read, by source.
func kindsWithGoldens(read []document.Document, sources []string) map[string]bool {
	kinds := map[string]bool{}
	objects, _ := readObjects(read, sources...)
	for _, o := range objects {
		for _, source := range sources {
			if isRead(source, o) {
				kinds[fmt.Sprintf("%s reads %s", source, o.kind)] = true
			}
		}
	}
	return kinds
}
