package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestTheReadmeIsWhatTheValuesSay(t *testing.T) {
	want, err := readme(read(t, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(read(t, "README.md")) != want {
		t.Error("deploy/helm/plinth/README.md is not what values.yaml says: make generate writes it")
	}
}

func TestAValueWithoutACommentIsNamed(t *testing.T) {
	_, err := readme([]byte("a:\n  b: 1 # so many\n  c: 2\n"))
	if err == nil || !strings.Contains(err.Error(), "values.yaml:3: a.c has no comment") {
		t.Errorf("it says %v", err)
	}
}

// TestEveryValueIsInTheSchemaAndEveryPropertyIsAValue: else a documented value is refused, or
// one that does nothing is taken.
func TestEveryValueIsInTheSchemaAndEveryPropertyIsAValue(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal(read(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(read(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	compare(t, "", values, schema, schema["$defs"].(map[string]any))
}

func compare(t *testing.T, path string, values, schema, definitions map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = definitions[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return // free, as what Kubernetes itself takes
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%s takes values that there are none of", path)
	}
	for name, value := range values {
		below, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s%s is not in the schema", path, name)
			continue
		}
		if mapping, ok := value.(map[string]any); ok {
			compare(t, path+name+".", mapping, below, definitions)
		}
	}
	for name := range properties {
		if _, ok := values[name]; !ok && !slices.Contains([]string{"global"}, name) { // Helm's own
			t.Errorf("the schema has %s%s, of which values.yaml says nothing", path, name)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
