package source

import (
	"bytes"
	"compress/gzip"
	"io"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory/document"
)

// Version 0.1 changed each rack's slice in place, before the common ConfigMap made its
// generation valid, and kept the generation in force compressed beside it. Its ConfigMaps are
// read, and a copy of each slice in force is written for it, after the commit: its agents take
// a slice of the generation that is listed, and until then keep the inventory that they have.
const (
	annotationPrevious = "plinth.dev/previous-generation"
	keyPreviousText    = "previous.yaml.gz" // in binaryData
)

func copyName(rack string) string { return AcceptedName + "-" + rack }

// anyCopy reports whether there is a copy, and so was a commit.
func anyCopy(parts map[string]*v1.ConfigMap) bool {
	for name := range parts {
		if strings.HasPrefix(name, copyName("")) {
			return true
		}
	}
	return false
}

// copyOf returns the copy of a slice that version 0.1 reads.
func copyOf(rack string, slice *v1.ConfigMap) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: slice.Data}
	cm.Name, cm.Labels, cm.Annotations = copyName(rack), slice.Labels, slice.Annotations
	return cm
}

// inPlace returns the document of a generation in a slice that version 0.1 changed in place; false: there is none.
func inPlace(slice *v1.ConfigMap, generation int64) (document.Document, bool) {
	switch {
	case slice == nil:
		return document.Document{}, false
	case generationOf(slice) == generation:
		return documentOf(slice), true
	case slice.Annotations[annotationPrevious] != strconv.FormatInt(generation, 10):
		return document.Document{}, false
	}
	doc := documentOf(slice)
	r, err := gzip.NewReader(bytes.NewReader(slice.BinaryData[keyPreviousText]))
	if err == nil {
		doc.Data, err = io.ReadAll(io.LimitReader(r, maxStored))
	}
	return doc, err == nil
}
