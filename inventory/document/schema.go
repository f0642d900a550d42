package document

import (
	"bytes"
	"encoding/json"
	"strings"

	"plinth.dev/plinth/inventory"
)

// SchemaID is the address of the JSON Schema.
const SchemaID = "https://plinth.dev/schemas/inventory-v1alpha1.json"

// jsonObject is a JSON object.
type jsonObject = map[string]any

// Schema returns the JSON Schema (2020-12) of an inventory, for editors. It
// tells keys, kinds and forms; what one value means for another is left to [Parse].
func Schema() []byte {
	defs := jsonObject{}
	types := Types()
	for _, t := range types {
		defs[t.defName()] = t.schema()
	}
	whole := jsonObject{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID, "title": "Plinth inventory",
		"description": types[0].Doc, "$ref": "#/$defs/" + types[0].defName(), "$defs": defs,
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(whole); err != nil {
		panic(err) // maps, lists and text only
	}
	return text.Bytes()
}

// defName is the type's name in the schema.
func (t TypeDoc) defName() string {
	n := strings.TrimPrefix(t.Name, "raw")
	return strings.ToLower(n[:1]) + n[1:]
}

// schema describes a mapping.
func (t TypeDoc) schema() jsonObject {
	properties, required := jsonObject{}, []string{}
	for _, doc := range t.Fields {
		if doc.Hidden {
			continue
		}
		properties[doc.Key] = doc.schema()
		if doc.Required {
			required = append(required, doc.Key)
		}
	}
	out := jsonObject{
		"type": []string{"object", "null"}, "description": t.Doc, "properties": properties,
		"patternProperties": jsonObject{"^x-": jsonObject{"description": "Ignored."}, "^<<$": jsonObject{"description": "YAML's merge key."}}, "additionalProperties": false,
	}
	if len(required) > 0 {
		out["required"], out["type"] = required, "object"
	}
	return out
}

// schema describes one key.
func (f FieldDoc) schema() jsonObject {
	out := schemaOf(f.Type)
	if low, high, ok := strings.Cut(f.Form, ".."); ok && f.Type == "scalar[int]" {
		out["minimum"], out["maximum"] = json.Number(low), json.Number(high)
	}
	if special, ok := fieldSchemas[f.Key]; ok && strings.HasPrefix(f.Type, "scalar") {
		out = special()
	}
	out["description"] = f.Doc
	return out
}

// schemaOf describes a Go type as raw.go has it.
func schemaOf(goType string) jsonObject {
	switch outer, inner := unwrap(goType); outer {
	case "scalar":
		return orNull(scalarSchema(inner))
	case "list":
		return jsonObject{"type": []string{"array", "null"}, "items": itemSchema(inner)}
	case "oneOrMore":
		return jsonObject{"anyOf": []any{schemaOf(inner), jsonObject{"type": "array", "items": itemSchema(inner)}}}
	case "entries":
		return jsonObject{"type": []string{"object", "null"}, "additionalProperties": scalarSchema(inner)}
	}
	return jsonObject{"$ref": "#/$defs/" + TypeDoc{Name: goType}.defName()}
}

// itemSchema describes an item of a list, which is never left empty.
func itemSchema(goType string) jsonObject {
	if outer, inner := unwrap(goType); outer == "scalar" {
		return scalarSchema(inner)
	}
	return schemaOf(goType)
}

// unwrap splits list[rawRack] into list and rawRack.
func unwrap(goType string) (outer, inner string) {
	outer, inner, found := strings.Cut(goType, "[")
	if !found {
		return "", goType
	}
	return outer, strings.TrimSuffix(inner, "]")
}

// orNull lets a value be left empty.
func orNull(object jsonObject) jsonObject {
	if t, ok := object["type"].(string); ok {
		object["type"] = []string{t, "null"}
	}
	if words, ok := object["enum"].([]any); ok {
		object["enum"] = append(words, nil)
	}
	return object
}

// Forms of text, as regular expressions of the schema.
const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`
	addressPattern  = `^[0-9A-Fa-f.:]+(%[^ %]+)?$`
	prefixPattern   = `^[0-9A-Fa-f.:]+/[0-9]+$`
	rangePattern    = `^[0-9A-Fa-f.:]+(/[0-9]+| *- *[0-9A-Fa-f.:]+)?$`
	servicePattern  = `^[a-z0-9-]+/[a-z0-9.-]+$`
)

// scalarSchema describes the value of a scalar.
func scalarSchema(goType string) jsonObject {
	if words, ok := wordsOf[goType]; ok {
		return jsonObject{"enum": words}
	}
	if pattern, ok := patternOf[goType]; ok {
		return jsonObject{"type": "string", "pattern": pattern}
	}
	switch goType {
	case "bool":
		return jsonObject{"type": "boolean"}
	case "int":
		return jsonObject{"type": "integer"}
	case "ASN":
		return jsonObject{"anyOf": []any{jsonObject{"type": "integer", "minimum": 1, "maximum": 4294967294}, jsonObject{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?$`}}}
	case "Limit":
		return jsonObject{"anyOf": []any{jsonObject{"type": "integer", "minimum": 0}, jsonObject{"type": "string", "pattern": `^[0-9]+%?$`}}}
	}
	return jsonObject{"type": "string"}
}

var patternOf = map[string]string{
	"time.Duration": durationPattern, "netip.Addr": addressPattern, "netip.Prefix": prefixPattern, "Range": rangePattern, "Reservation": servicePattern,
}

// wordsOf are the words of types that have a few.
var wordsOf = map[string][]any{
	"Learn":     {"none", "default"},
	"Mode":      {"direct", "fabric", "overlay"},
	"PoolState": {"active", "draining", "disabled"},
	"State":     {"planned", "active", "maintenance", "off", "retired"},
	"Operator":  {"In", "NotIn", "Exists", "DoesNotExist"},
	"Via":       {"bgp", "link"},
}

// fieldSchemas are the schemas of keys whose type does not determine them.
var fieldSchemas = map[string]func() jsonObject{
	"apiVersion": func() jsonObject { return jsonObject{"const": inventory.APIVersion} },
	"kind":       func() jsonObject { return jsonObject{"const": inventory.Kind} },
	"effect":     func() jsonObject { return jsonObject{"enum": []any{"NoSchedule", "PreferNoSchedule", "NoExecute"}} },
	"os":         func() jsonObject { return orNull(jsonObject{"enum": languageWords()}) },
	"gracefulRestart": func() jsonObject {
		return jsonObject{"anyOf": []any{jsonObject{"enum": []any{"off", nil}}, jsonObject{"$ref": "#/$defs/gracefulRestart"}}}
	},
}

func languageWords() []any {
	return converted(inventory.Languages(), func(language string) any { return language })
}
