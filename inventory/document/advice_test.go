package document

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// oddlyWritten are values as people and programs write them, of which most fields refuse most.
var oddlyWritten = []string{
	"010", "0x10", "0o10", "0b11", "1_00", "1_000", "+12", "-1", "08", "1e3", "1.10", "0", "99999999999999999999", "65010.10", "AS65010", "as 65010", "0x", ".5", "5 %", "0.2",
	"true", "False", "yes", "off", "on", "n", "none", "null x", "2026-01-01", "01:30", "1m30", "9", "9 s", "9sec", "90 seconds", "-3s", "0.5s", "1h0m", "100s", "010s", "1h010m", "00.5s", "010 sec",
	"Rack 01", "r_01", "-r01-", "UPPER", "a.b.", "ä", "plinth://x", "k3s:w1", "k3s://w 1", "4c4c45440032301080 53b7c04f585931", "{4C4C4544-0032-3010-8053-B7C04F585931}",
	"10.1.1", "10.001.1.1", "10.1.1.1/24", "10.1.1.0/24", "10.1.1.0-24", "10.1.1.0/08", "10.001.1.0/024", "2001:db8::/064", "10.1.1.010-10.1.1.20", "10.1.1.1 - 10.1.1.020", "10.1.1.9-10.1.1.1", "10.1.1.1-2001:db8::1", "::ffff:10.1.1.1", "::ffff:10.1.1.0/120", "fe80::1", "fe80::1%eth0", "2001:DB8::1", "[2001:db8::1]:80",
	"65010:100", "65010,100", "65010 100", "no_export", "NO-EXPORT", "4200000000:7", "large:1:2", "default.web", "Default/Web", "web", "a/b/c", "A b/c d",
	"arp", "l2", "bgp", "vxlan", "enabled", "down", "cordoned", "spare", "~x", "'", "\"quoted\"", "[a]", "[a, b]", "{a: b}", "a: b", "*", "&a b", "!!int 5", "|", "- a", "",
}

// Law: of every field, each suggestion in the place of a value is taken by that same field.
func TestEveryFieldTakesTheAdviceThatItGives(t *testing.T) {
	fieldsOf := func(yield func(name string, of reflect.Type, f field)) {
		for typ, all := range fieldsByType {
			for key, f := range all {
				if into := typ.FieldByIndex(f.index).Type; reflect.PointerTo(into).Implements(reflect.TypeFor[decodable]()) {
					yield(typ.Name()+"."+key, into, f)
				}
			}
		}
	}
	followed := 0
	check := func(t interface{ Errorf(string, ...any) }, name string, of reflect.Type, f field, value string) {
		decode := func(n *yaml.Node) []fault {
			d := &decoder{steps: 1000}
			reflect.New(of).Interface().(decodable).decode(d, n, f.read)
			return d.faults
		}
		n, _ := written(value)
		for _, first := range decode(n) {
			if first.node != n || first.suggestion == "" || first.elsewhere {
				continue
			}
			followed++
			follow, legible := written(strings.TrimSuffix(first.suggestion, withoutQuotes))
			if !legible {
				t.Errorf("%s: %s %s; %s is suggested, which cannot be written there", name, value, first.message, first.suggestion)
			}
			if again := decode(follow); len(again) > 0 {
				t.Errorf("%s: %s %s; %s is suggested, and refused: %s", name, value, first.message, first.suggestion, again[0].message)
			}
		}
	}
	for _, value := range oddlyWritten {
		fieldsOf(func(name string, of reflect.Type, f field) {
			check(t, name, of, f, value)
			check(t, name, of, f, strconv.Quote(value))
		})
	}
	if followed < 500 {
		t.Errorf("only %d suggestions were followed: this test says nothing", followed)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-fxoA-F_+:./% -]{1,12}`)).Draw(t, "value")
		fieldsOf(func(name string, of reflect.Type, f field) { check(t, name, of, f, value) })
	})
}

// oddFields are fields of a document, each by its path, with a value that is good.
var oddFields = []struct{ name, good string }{
	{"asn", "65010"}, {"multihop", "2"}, {"holdTime", "9s"}, {"bfd", "off"}, {"router", "tor"}, {"port", "179"}, {"rack", "r01"}, {"machine", "m1"},
	{"state", "active"}, {"unit", "20"}, {"label", "north"}, {"label key", "tier"}, {"localPref", "100"}, {"aggregate", "24"}, {"priority", "5"},
}

// loadOdd reads a document with one of [oddFields] written as given.
func loadOdd(field, written string) (*inventory.Inventory, inventory.Problems) {
	args := make([]any, len(oddFields))
	for i, f := range oddFields {
		args[i] = f.good
		if f.name == field {
			args[i] = written
		}
	}
	return Parse(Document{Source: "dc1.yaml", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: %s, multihop: %s, holdTime: %s, bfd: %s}
  routers: [{name: %s, address: 10.1.1.254, asn: 65101, port: %s}]
  racks: [{name: %s, machines: [{name: %s, addresses: [10.1.1.1], state: %s, unit: %s, labels: {site: %s, %s: x}}]}]
  pools: [{name: p, addresses: [203.0.113.0/24], advertise: [{localPref: %s, aggregate: {ipv4: %s}}], priority: %s}]
`, args...)})
}

// A number that two readers of YAML take for two numbers is refused, and one that is written in another way is told in digits.
func TestANumberIsWrittenInDecimalDigits(t *testing.T) {
	for _, f := range oddFields {
		if _, err := strconv.Atoi(f.good); err != nil || f.name == "asn" {
			continue
		}
		if inv, problems := loadOdd(f.name, f.good); inv == nil {
			t.Fatalf("%s: %s: %v", f.name, f.good, problems)
		}
		for _, c := range []struct{ written, suggested string }{
			{"010", ""}, {"-010", ""}, {"0x10", "16"}, {"0o20", "16"}, {"0b10000", "16"}, {"1_6", "16"}, {"+16", "16"},
		} {
			_, problems := loadOdd(f.name, c.written)
			i := slices.IndexFunc(problems, func(p inventory.Problem) bool { return p.Severity == inventory.Error && p.Value == c.written })
			if i < 0 || problems[i].Code == inventory.OutOfRange || problems[i].Suggestion != c.suggested {
				t.Errorf("%s: %s gives %v, want an error of its own that suggests %q", f.name, c.written, problems, c.suggested)
			}
		}
	}
}

// A time, an address and a prefix with zeros before a number is told without them.
func TestZerosBeforeANumberAreLeftOutOfWhatIsSuggested(t *testing.T) {
	for _, c := range []struct{ spec, value, suggested string }{
		{"bgp: {holdTime: 010s}", "010s", "10s"},
		{"bgp: {gracefulRestart: {restartTime: 1m005s}}", "1m005s", "1m5s"},
		{"bfdProfiles: [{name: a, interval: 0100ms}]", "0100ms", "100ms"},
		{"podNetwork: {mode: direct, cidrs: [10.0.0.0/08]}", "10.0.0.0/08", "10.0.0.0/8"},
		{"racks: [{name: a, subnets: [010.1.1.1/024]}]", "010.1.1.1/024", "10.1.1.0/24"},
		{"pools: [{name: a, addresses: [10.0.0.010]}]", "10.0.0.010", "10.0.0.10"},
		{"pools: [{name: a, addresses: [10.0.0.010-10.0.0.019]}]", "10.0.0.010-10.0.0.019", "10.0.0.10-10.0.0.19"},
		{"pools: [{name: a, addresses: [10.0.0.0/024]}]", "10.0.0.0/024", "10.0.0.0/24"},
		{"pools: [{name: a, addresses: [10.0.0.0/24], reserved: {10.0.0.010: a/b}}]", "10.0.0.010", "10.0.0.10"},
	} {
		_, problems := Load(inSpec(c.spec))
		i := slices.IndexFunc(problems, func(p inventory.Problem) bool { return p.Severity == inventory.Error && p.Value == c.value })
		if i < 0 || problems[i].Suggestion != c.suggested {
			t.Errorf("%s gives %v, want an error that suggests %s", c.spec, problems, c.suggested)
		}
	}
	for _, good := range []string{"0s", "10s", "1.05s", "100ms", "1m0s"} {
		if _, refused := parseDuration(good); refused != nil {
			t.Errorf("%s is refused: %s", good, refused.message)
		}
	}
}

// What was meant by a word that is a truth value to YAML is told.
func TestATruthValueInThePlaceOfAWordHasItsWord(t *testing.T) {
	for field, want := range map[string]string{"bfd": "off", "state": "off"} {
		_, problems := loadOdd(field, "false")
		if problems.Err() == nil || problems[0].Suggestion != want {
			t.Errorf("%s: false: %v, want %s to be suggested", field, problems, want)
		}
	}
}
