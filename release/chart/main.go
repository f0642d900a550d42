package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:generate go run .

const folder = "../../deploy/helm/plinth/"

const introduction = `# Plinth

<!-- generated from values.yaml by make generate -->

A cloud-controller-manager for people who own their machines, and its agent on each of them. What it needs and does is in the
[guide to installing](../../../docs/guides/install.md).

` + "```console" + `
helm install plinth plinth-1.2.3.tgz -n plinth-system --create-namespace \
  --set inventory.name=home --set-file 'inventory.files.inventory\.yaml=inventory.yaml'
` + "```" + `

An inventory with a mistake ends this with an error, and nothing is installed. What was wrong is in the status of the pod that looked, even before a Node has an address for ` + "`kubectl logs`" + `:

` + "```console" + `
kubectl -n plinth-system get pods -l job-name=plinth-inventory-check -o jsonpath='{.items[*].status.containerStatuses[*].state.terminated.message}'
` + "```" + `

Where the inventory is only in part in the chart, and in ConfigMaps of your own for the rest, set ` + "`inventory.validate=false`" + `: a part need not
be right alone. Set it, too, where kubectl applies what ` + "`helm template`" + ` renders:
to kubectl the Job is no hook, and the second time a changed one, as of another image, is refused. A misspelt value is refused. There is no NetworkPolicy: all pods are on the host's network, where none has an effect.

## Values

| value | default | meaning |
|---|---|---|
`

func main() {
	values, err := os.ReadFile(folder + "values.yaml")
	if err == nil {
		var page string
		if page, err = readme(values); err == nil {
			err = os.WriteFile(folder+"README.md", []byte(page), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// readme is the chart's page of documentation. Each value has a comment, or lies in one that has.
func readme(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	if len(document.Content) != 1 {
		return "", errors.New("values.yaml: want one document")
	}
	rows, err := describe("", document.Content[0])
	return introduction + strings.Join(rows, ""), err
}

// describe returns the rows of all values of a mapping, in the order of the file.
func describe(prefix string, mapping *yaml.Node) ([]string, error) {
	var rows []string
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		if meaning := comment(key, value); meaning != "" {
			text, err := inline(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", path, text, meaning))
			continue
		}
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			return nil, fmt.Errorf("values.yaml:%d: %s has no comment that says what it is", key.Line, path)
		}
		more, err := describe(path+".", value)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// comment is what stands behind a value, or behind its key where it goes on below.
func comment(key, value *yaml.Node) string {
	text := value.LineComment
	if text == "" {
		text = key.LineComment
	}
	return strings.TrimSpace(strings.TrimPrefix(text, "#"))
}

// inline is a value on one line.
func inline(value *yaml.Node) (string, error) {
	plain := bare(value)
	text, err := yaml.Marshal(plain)
	return strings.TrimSpace(string(text)), err
}

// bare is a value without comments and in one line's style.
func bare(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	if c.Kind == yaml.MappingNode || c.Kind == yaml.SequenceNode {
		c.Style = yaml.FlowStyle
	}
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, bare(child))
	}
	return &c
}
