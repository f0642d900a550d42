package document_test

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// TestAProblemIsShortHoweverLongWhatItQuotes: it is to be told in a ConfigMap and in a log line.
func TestAProblemIsShortHoweverLongWhatItQuotes(t *testing.T) {
	long := strings.Repeat("k", 900_000)
	for what, spec := range map[string]string{
		"a key":         long + ": 1",
		"a name":        "racks: [{name: r0, machines: [{name: " + long + ", addresses: [10.10.0.11]}]}]",
		"a label":       "labels: {" + long + ": x}",
		"label's value": "labels: {x: " + long + "}",
		"an item":       "racks: [{name: " + long + ", machines: [{}]}]",
	} {
		_, problems := document.Parse(document.Document{Source: "x.yaml", Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  " + spec + "\n")})
		if problems.Err() == nil {
			t.Errorf("%s of 900 kB is no error", what)
		}
		for _, p := range problems {
			if n := len(p.String()); n > 4000 {
				t.Errorf("%s of 900 kB makes a problem of %d bytes: %.100s", what, n, p.String())
			}
		}
	}
}
