package document_test

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

func TestEveryEffectiveValueHasAnOrigin(t *testing.T) {
	doc := inventorytest.Document(`
bgp:
  asn: 65010
  holdTime: 30s
labels: {example.com/site: berlin}
routers:
- {name: tor, address: 10.1.0.1, asn: 65101, multihop: 2}
racks:
- name: r01
  state: maintenance
  learn: default
  machines:
  - name: w1
    unit: 7
    addresses: [10.1.1.1]
`)
	origins, problems := document.Explain("w1", doc)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	got := map[string]string{}
	for _, o := range origins {
		got[o.Field] = fmt.Sprintf("%s %d %s", o.Value, o.Position.Line, o.Note)
	}
	for field, want := range map[string]string{
		"name":                                  "w1 16 ",
		"providerID":                            "plinth://w1 0 default: what it has in force, or the machine's name",
		"state":                                 "maintenance 13 ",
		"rack":                                  "r01 12 ",
		"labels[example.com/site]":              "berlin 8 ",
		"labels[plinth.dev/unit]":               "7 17 ",
		"labels[" + inventory.LabelRegion + "]": "dc1 0 default: metadata.name",
		"labels[" + inventory.LabelZone + "]":   "r01 0 default: the rack's name",
		"taints[plinth.dev/maintenance]":        ":NoSchedule 0 because of state: maintenance",
		"sessions[tor 10.1.0.1].holdTime":       "30s 7 ",
		"sessions[tor 10.1.0.1].learn":          "default 14 ",
		"sessions[tor 10.1.0.1].multihop":       "2 10 ",
		"sessions[tor 10.1.0.1].localASN":       "65010 6 ",
		"sessions[tor 10.1.0.1].bfd":            "off 0 default",
		"sessions[tor 10.1.0.1].restartTime":    "60s 0 default",
	} {
		if got[field] != want {
			t.Errorf("%s is %q, want %q", field, got[field], want)
		}
	}
	for _, o := range origins {
		if o.Position.Line == 0 && o.Note == "" {
			t.Errorf("%s comes from nowhere", o.Field)
		}
	}
	if origins, _ := document.Explain("w2", doc); origins != nil {
		t.Error("a machine that is not there is explained")
	}
	if _, problems := document.Explain("w1", document.Document{Source: "x", Data: []byte("spec: [")}); !strings.Contains(problems.String(), "P0101") {
		t.Error(problems)
	}
}
