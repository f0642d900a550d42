package document

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v4"
)

// Document is the bytes of a file or of a key of a ConfigMap; they may hold
// several YAML documents. Source is "path/file.yaml", or
// "configmap/<namespace>/<name>/<key>", as problems are to show it.
type Document struct {
	Source string
	Data   []byte
}

// page is one YAML document of a Document.
type page struct {
	source string
	root   *yaml.Node // its content; nil where there is none
}

// readPages reads one stream.
func readPages(doc Document) ([]page, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(doc.Data))
	if err != nil {
		return nil, err
	}
	var pages []page
	for {
		var node yaml.Node
		switch err := loader.Load(&node); {
		case errors.Is(err, io.EOF):
			return pages, nil
		case err != nil:
			return pages, err
		}
		if len(node.Content) == 1 && !isNull(node.Content[0]) {
			pages = append(pages, page{doc.Source, node.Content[0]})
		}
	}
}
