package document

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// checker holds a value against the keywords that our schema uses, and says no
// where a keyword is used that it does not know.
type checker struct{ defs map[string]any }

func (c checker) check(schema map[string]any, v any, path string) error {
	for keyword, arg := range schema {
		rule, known := rules[keyword]
		if !known {
			return fmt.Errorf("the schema has a keyword that the test does not know: %s", keyword)
		}
		if rule == nil {
			continue
		}
		if err := rule(c, schema, arg, v, path); err != nil {
			return err
		}
	}
	return nil
}

type rule func(c checker, schema map[string]any, arg, v any, path string) error

// rules are the keywords; those without one only tell something.
var rules map[string]rule

func init() {
	rules = map[string]rule{
		"$schema": nil, "$id": nil, "title": nil, "description": nil, "$defs": nil, "patternProperties": nil,
		"$ref": func(c checker, _ map[string]any, arg, v any, path string) error {
			return c.check(c.defs[strings.TrimPrefix(arg.(string), "#/$defs/")].(map[string]any), v, path)
		},
		"type": func(_ checker, _ map[string]any, arg, v any, path string) error {
			for _, t := range anyList(arg) {
				if t == typeName(v) {
					return nil
				}
			}
			return fmt.Errorf("%s is %s, want %v", path, typeName(v), arg)
		},
		"enum": func(_ checker, _ map[string]any, arg, v any, path string) error {
			if slices.Contains(anyList(arg), v) {
				return nil
			}
			return fmt.Errorf("%s: %v is none of %v", path, v, arg)
		},
		"const": func(_ checker, _ map[string]any, arg, v any, path string) error {
			if arg == v {
				return nil
			}
			return fmt.Errorf("%s: %v is not %v", path, v, arg)
		},
		"pattern": func(_ checker, _ map[string]any, arg, v any, path string) error {
			if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
				return fmt.Errorf("%s: %q does not match %s", path, s, arg)
			}
			return nil
		},
		"minimum": func(_ checker, _ map[string]any, arg, v any, path string) error { return bound(v, arg, path, -1) },
		"maximum": func(_ checker, _ map[string]any, arg, v any, path string) error { return bound(v, arg, path, 1) },
		"anyOf": func(c checker, _ map[string]any, arg, v any, path string) error {
			var last error
			for _, s := range arg.([]any) {
				if last = c.check(s.(map[string]any), v, path); last == nil {
					return nil
				}
			}
			return last
		},
		"items": func(c checker, _ map[string]any, arg, v any, path string) error {
			list, _ := v.([]any)
			for i, item := range list {
				if err := c.check(arg.(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
			return nil
		},
		"required": func(_ checker, _ map[string]any, arg, v any, path string) error {
			m, isMap := v.(map[string]any)
			for _, k := range anyList(arg) {
				if _, ok := m[k.(string)]; isMap && !ok {
					return fmt.Errorf("%s has no %s", path, k)
				}
			}
			return nil
		},
		"properties": func(c checker, _ map[string]any, arg, v any, path string) error {
			m, _ := v.(map[string]any)
			for k, s := range arg.(map[string]any) {
				if have, ok := m[k]; ok {
					if err := c.check(s.(map[string]any), have, path+"."+k); err != nil {
						return err
					}
				}
			}
			return nil
		},
		"additionalProperties": additional,
	}
}

func additional(c checker, schema map[string]any, arg, v any, path string) error {
	m, _ := v.(map[string]any)
	known, _ := schema["properties"].(map[string]any)
	for k, have := range m {
		if _, ok := known[k]; ok || strings.HasPrefix(k, "x-") {
			continue
		}
		if arg == false {
			return fmt.Errorf("%s has %s", path, k)
		}
		if err := c.check(arg.(map[string]any), have, path+"."+k); err != nil {
			return err
		}
	}
	return nil
}

func anyList(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int, int64, uint64:
		return "integer"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return fmt.Sprintf("%T", v)
}

func bound(v, arg any, path string, sign float64) error {
	if n, ok := v.(int); ok && sign*float64(n) > sign*arg.(float64) {
		return fmt.Errorf("%s: %d is beyond %v", path, n, arg)
	}
	return nil
}

func newChecker(t *testing.T) (checker, map[string]any) {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	return checker{schema["$defs"].(map[string]any)}, schema
}

// checkAll holds every document of a file against the schema.
func checkAll(t *testing.T, data []byte) error {
	c, schema := newChecker(t)
	var docs []any
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		return err
	}
	for _, d := range docs {
		if err := c.check(schema, d, "document"); err != nil {
			return err
		}
	}
	return nil
}

func TestTheSchemaTakesWhatIsGood(t *testing.T) {
	names, _ := filepath.Glob("../../examples/*/*.yaml")
	own, _ := filepath.Glob("../inventorytest/*.yaml")
	if len(names) == 0 || len(own) == 0 {
		t.Fatal("no files to check")
	}
	for _, name := range append(names, own...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAll(t, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// shape are the codes of mistakes that one value alone shows, so that an editor
// can underline them; relations are those that only the whole inventory shows.
var shape = []inventory.Code{inventory.BadAPIVersion, inventory.BadKind, inventory.UnknownKey, inventory.WrongType, inventory.BadPrefix, inventory.UnknownWord, inventory.InlinePassword}

func TestTheSchemaRefusesBadShapesAndOnlyThose(t *testing.T) {
	for _, b := range badFiles(t) {
		code := inventory.Code(b.expect[strings.Index(b.expect, "[")+1 : len(b.expect)-1])
		err := checkAll(t, b.Data)
		switch {
		case slices.Contains(shape, code) && err == nil:
			t.Errorf("%s: the schema takes it", b.Source)
		case code >= "P0400" && err != nil:
			t.Errorf("%s: only the inventory as a whole shows the mistake, and the schema says %v", b.Source, err)
		}
	}
}

func TestTheSchemaDescribesEveryField(t *testing.T) {
	c, _ := newChecker(t)
	for name, def := range c.defs {
		d := def.(map[string]any)
		if text, _ := d["description"].(string); text == "" {
			t.Errorf("%s is not described", name)
		}
		for key, field := range d["properties"].(map[string]any) {
			if text, _ := field.(map[string]any)["description"].(string); text == "" {
				t.Errorf("%s.%s is not described", name, key)
			}
		}
	}
}
