package inventory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
func withAdvertise(t interface{ Fatal(...any) }, value string) (*Inventory, Problems) {
	inv, problems := Load(Document{"drawn", fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
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
		draw := func(label string) *Inventory {
			all := rapid.SliceOfN(rapid.Custom(drawAdvertise), 0, 4).Draw(t, label)
			inv, _ := withAdvertise(t, "["+strings.Join(all, ", ")+"]")
			if got := len(inv.Pools[0].Advertise); got != max(1, len(all)) {
				t.Fatalf("%d advertisements of %v", got, all)
			}
			return inv
		}
		a, b := draw("one"), draw("other")
		for _, text := range [][]byte{a.Format(), a.FormatAccepted()} {
			if again, problems := ParseAccepted(Document{"again", text}); again == nil || string(again.FormatAccepted()) != string(a.FormatAccepted()) && string(again.Format()) != string(a.Format()) {
				t.Fatalf("%v\n%s", problems, text)
			}
		}
		if Diff(a, b).Empty() != a.Equal(b) {
			t.Fatalf("no difference, or one, between\n%s\nand\n%s", a.Format(), b.Format())
		}
	})
}

// TestAMappingIsStoredAsBeforeAndAListOfOneAsThatMapping keeps what older versions read.
func TestAMappingIsStoredAsBeforeAndAListOfOneAsThatMapping(t *testing.T) {
	for _, value := range []string{"{}", "{racks: [r0], prepend: 2}", `{communities: [no-export, "65010:7"], aggregate: {ipv4: 24}}`} {
		one, _ := withAdvertise(t, value)
		list, _ := withAdvertise(t, "["+value+"]")
		text := string(one.FormatAccepted())
		if string(list.FormatAccepted()) != text || strings.Contains(text, "- racks") {
			t.Errorf("%s is stored as\n%s\nand in a list as\n%s", value, text, list.FormatAccepted())
		}
		if one.StoredFormat() != 1 || list.StoredFormat() != 1 {
			t.Errorf("%s: formats %d and %d", value, one.StoredFormat(), list.StoredFormat())
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
		inv, problems := Load(Document{"pool", fmt.Appendf(nil, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec: {pools: [{name: a, addresses: [203.0.113.0/24], %s}]}\n", tt.said)})
		if inv == nil {
			t.Fatal(problems)
		}
		again, problems := ParseAccepted(Document{"again", inv.FormatAccepted()})
		if again == nil || !again.Equal(inv) {
			t.Fatal(tt.said, problems)
		}
		for _, p := range []Pool{inv.Pools[0], again.Pools[0]} {
			got := []any{p.SelectsService(web), p.SelectsService(mail), p.AllowsNamespace("prod", nil), p.AllowsNamespace("x", map[string]string{"team": "my"}), inv.StoredFormat()}
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
		if inv.StoredFormat() != 2 || inv.Common().StoredFormat() != 2 || inv.Slice("r0").StoredFormat() != 1 {
			t.Errorf("%s: formats %d, %d, %d", value, inv.StoredFormat(), inv.Common().StoredFormat(), inv.Slice("r0").StoredFormat())
		}
		if text := string(inv.FormatAccepted()); !strings.Contains(text, "advertise:\n        - ") {
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
