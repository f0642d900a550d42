package document_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// drawAdvertise draws one advertisement as people write it, in one line.
func drawAdvertise(t *rapid.T) string {
	var said []string
	maybe := func(key string, values ...string) {
		if v := rapid.SampledFrom(append(values, "")).Draw(t, key); v != "" {
			said = append(said, key+": "+v)
		}
	}
	maybe("serviceSelector", "{matchLabels: {tier: web}}", "{matchExpressions: [{key: tier, operator: Exists}]}")
	maybe("racks", "[r0]", "[r1]", "[r0, r1]")
	maybe("routers", "[tor]")
	maybe("aggregate", "{ipv4: 24}", "{ipv4: 28}")
	maybe("localPref", "100", "200")
	maybe("communities", `["65010:1"]`, "[no-export]")
	maybe("prepend", "0", "2")
	maybe("weighted", "true", "false")
	return "{" + strings.Join(said, ", ") + "}"
}

// withAdvertise is a small inventory whose pool says this under advertise.
func withAdvertise(t interface{ Fatal(...any) }, value string) (*inventory.Inventory, inventory.Problems) {
	inv, problems := document.Load(document.Document{Source: "drawn", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor, address: 10.1.0.1, asn: 65010}]
  pools: [{name: public, addresses: [203.0.113.0/24], advertise: %s}]
  racks: [{name: r0, machines: [{name: w1, addresses: [10.1.0.11]}]}, {name: r1, machines: [{name: w2, addresses: [10.1.0.12]}]}]
`, value)})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv, problems
}

// TestAListOfAdvertisementsIsStoredAndComparedAsItIsWritten: nothing of it is lost between what
// people write, what is stored and what is printed, and no edit of it is no difference.
func TestAListOfAdvertisementsIsStoredAndComparedAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *inventory.Inventory {
			all := rapid.SliceOfN(rapid.Custom(drawAdvertise), 0, 4).Draw(t, label)
			inv, _ := withAdvertise(t, "["+strings.Join(all, ", ")+"]")
			if got := len(inv.Pools[0].Advertise); got != max(1, len(all)) {
				t.Fatalf("%d advertisements of %v", got, all)
			}
			return inv
		}
		a, b := draw("one"), draw("other")
		for _, text := range [][]byte{document.Format(a), document.FormatAccepted(a)} {
			if again, problems := document.ParseAccepted(document.Document{Source: "again", Data: text}); again == nil || string(document.FormatAccepted(again)) != string(document.FormatAccepted(a)) && string(document.Format(again)) != string(document.Format(a)) {
				t.Fatalf("%v\n%s", problems, text)
			}
		}
		if edit.Diff(a, b).Empty() != document.Equal(a, b) {
			t.Fatalf("no difference, or one, between\n%s\nand\n%s", document.Format(a), document.Format(b))
		}
	})
}

// TestAMappingIsStoredAsBeforeAndAListOfOneAsThatMapping keeps what older versions read.
func TestAMappingIsStoredAsBeforeAndAListOfOneAsThatMapping(t *testing.T) {
	for _, value := range []string{"{}", "{racks: [r0], prepend: 2}", `{communities: [no-export, "65010:7"], aggregate: {ipv4: 24}}`} {
		one, _ := withAdvertise(t, value)
		list, _ := withAdvertise(t, "["+value+"]")
		text := string(document.FormatAccepted(one))
		if string(document.FormatAccepted(list)) != text || strings.Contains(text, "- racks") {
			t.Errorf("%s is stored as\n%s\nand in a list as\n%s", value, text, document.FormatAccepted(list))
		}
		if document.StoredFormat(one) != 1 || document.StoredFormat(list) != 1 {
			t.Errorf("%s: formats %d and %d", value, document.StoredFormat(one), document.StoredFormat(list))
		}
	}
}

// TestSelectorsOfAPool holds what counts as one, and what is stored as older versions know it.
func TestSelectorsOfAPool(t *testing.T) {
	web, mail := map[string]string{"tier": "web"}, map[string]string{"tier": "mail"}
	for _, tt := range []struct {
		said                string
		web, mail, prod, my bool // a Service of that tier; a Namespace of that name; one with team: my
		format              int
	}{
		{"", true, true, true, true, 1},
		{"serviceSelector: {matchLabels: {tier: web}}", true, false, true, true, 1},
		{"serviceSelectors: [{matchLabels: {tier: web}}]", true, false, true, true, 1},
		{"serviceSelector: {matchLabels: {tier: web}}, serviceSelectors: [{matchLabels: {tier: mail}}]", true, true, true, true, 2},
		{"serviceSelector: {}, serviceSelectors: [{matchLabels: {tier: mail}}]", false, true, true, true, 1},
		{"serviceSelectors: [{matchLabels: {tier: mail}}, {}]", true, true, true, true, 1},
		{"namespaces: [prod]", true, true, true, false, 1},
		{"namespaceSelectors: [{matchLabels: {team: my}}]", true, true, false, true, 2},
		{"namespaces: [prod], namespaceSelectors: [{matchLabels: {team: my}}]", true, true, true, true, 2},
		{"namespaces: [test], namespaceSelectors: [{}]", true, true, true, true, 1},
		{"namespaceSelectors: []", true, true, true, true, 1},
	} {
		inv, problems := document.Load(document.Document{Source: "pool", Data: fmt.Appendf(nil, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec: {pools: [{name: a, addresses: [203.0.113.0/24], %s}]}\n", tt.said)})
		if inv == nil {
			t.Fatal(problems)
		}
		again, problems := document.ParseAccepted(document.Document{Source: "again", Data: document.FormatAccepted(inv)})
		if again == nil || !document.Equal(again, inv) {
			t.Fatal(tt.said, problems)
		}
		for _, p := range []inventory.Pool{inv.Pools[0], again.Pools[0]} {
			got := []any{p.SelectsService(web), p.SelectsService(mail), p.AllowsNamespace("prod", nil), p.AllowsNamespace("x", map[string]string{"team": "my"}), document.StoredFormat(inv)}
			if want := []any{tt.web, tt.mail, tt.prod, tt.my, tt.format}; !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", tt.said, got, want)
			}
		}
	}
}

// TestWhatOlderVersionsWouldMisreadIsOfAFormatThatTheyDoNotRead: and should one look at it all
// the same, it finds an error, and not an advertisement of something else.
func TestWhatOlderVersionsWouldMisreadIsOfAFormatThatTheyDoNotRead(t *testing.T) {
	for _, value := range []string{"[{}, {prepend: 1}]", "{serviceSelector: {matchLabels: {tier: web}}}"} {
		inv, _ := withAdvertise(t, value)
		if document.StoredFormat(inv) != 2 || document.StoredFormat(inv.Common()) != 2 || document.StoredFormat(inv.Slice("r0")) != 1 {
			t.Errorf("%s: formats %d, %d, %d", value, document.StoredFormat(inv), document.StoredFormat(inv.Common()), document.StoredFormat(inv.Slice("r0")))
		}
		if text := string(document.FormatAccepted(inv)); !strings.Contains(text, "advertise:\n        - ") {
			t.Errorf("%s is stored as what an older version reads:\n%s", value, text)
		}
	}
}

func TestAnAdvertisementThatLeavesNothingToALaterOneIsReported(t *testing.T) {
	const shadowed = "P0713"
	for value, want := range map[string]bool{
		"[{prepend: 1}, {racks: [r0]}]":                                                                    true,
		"[{racks: [r0, r1]}, {racks: [r1], prepend: 1}]":                                                   true,
		"[{racks: [r0]}, {prepend: 1}]":                                                                    false,
		"[{aggregate: {ipv4: 24}}, {prepend: 1}]":                                                          false,
		"[{serviceSelector: {matchLabels: {tier: web}}}, {}]":                                              false,
		"[{}, {serviceSelector: {matchLabels: {tier: web}}}]":                                              true,
		"[{aggregate: {ipv6: 64}}, {prepend: 1}]":                                                          true, // the pool has no IPv6
		"[{routers: [tor]}, {zones: [r0]}]":                                                                false,
		"[{serviceSelector: {matchLabels: {a: b}}}, {serviceSelector: {matchLabels: {a: b}}, prepend: 1}]": true,
	} {
		_, problems := withAdvertise(t, value)
		if got := strings.Contains(problems.String(), shadowed); got != want {
			t.Errorf("%s: reported %v, want %v\n%v", value, got, want, problems)
		}
	}
}
