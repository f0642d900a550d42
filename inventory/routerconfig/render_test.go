package routerconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

// subjects are the inventories that the golden files are made of, each a file or
// a folder.
func subjects(t *testing.T) map[string]*inventory.Inventory {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string][]document.Document{}
	for _, f := range append(files, folders...) {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		if folder := filepath.Base(filepath.Dir(f)); folder != "testdata" {
			name = folder
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs[name] = append(docs[name], document.Document{Source: f, Data: text})
	}
	out := map[string]*inventory.Inventory{}
	for name, d := range docs {
		inv, problems := document.Load(d...)
		if inv == nil {
			t.Fatalf("%s:\n%v", name, problems)
		}
		out[name] = inv
	}
	if len(out) < 4 {
		t.Fatalf("found only %d inventories", len(out))
	}
	return out
}

// passwords are for the golden files that show where they go.
var passwords = map[inventory.SecretKey]string{{Secret: "bgp", Key: "spine"}: "open-sesame"}

// variants are the ways to ask for a text, by what is added to the file's name.
var variants = map[string]Options{
	"":            {},
	".standalone": {Standalone: true, Passwords: passwords},
}

func TestRouterSidesAreAsTheGoldenFilesSay(t *testing.T) {
	for name, inv := range subjects(t) {
		for _, router := range inv.Routers {
			for _, language := range inventory.Languages() {
				for ending, o := range variants {
					file := filepath.Join("testdata", "golden", name, fmt.Sprintf("%s.%s%s.conf", router.Name, language, ending))
					t.Run(file, func(t *testing.T) {
						got, err := Render(inv, router.Name, language, o)
						if errors.Is(err, ErrCannot) {
							file, got, err = file+".refused", []byte(err.Error()+"\n"), nil
						}
						if err != nil {
							t.Fatal(err)
						}
						golden.Hold(t, file, got)
					})
				}
			}
		}
	}
}

func TestTheRoutersOwnLanguageIsTheDefault(t *testing.T) {
	inv := subjects(t)["two-rack"]
	own, err := Render(inv, "tor-r02", "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := Render(inv, "tor-r02", "bird", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if string(own) != string(asked) {
		t.Errorf("the inventory says bird, and got\n%s", own)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	inv := subjects(t)["every-option"]
	key := inventory.SecretKey{Secret: "bgp", Key: "spine"}
	with := func(word string) Options {
		return Options{Passwords: map[inventory.SecretKey]string{key: word}}
	}
	for _, c := range []struct {
		name, router, language string
		options                Options
		kind                   error
		text                   string
	}{
		{"a router that is not there", "nowhere", "frr", Options{}, ErrNoRouter, "core, edge, spine"},
		{"a language that nobody speaks", "spine", "ios", Options{}, ErrNoOS, "bird, "},
		{"no language at all", "spine", "", Options{}, ErrNoOS, "bird, "},
		{"a session that the language has no word for", "edge", "openbgpd", Options{}, ErrCannot, "cannot do BFD; change it for router edge"},
		{"an empty password", "spine", "frr", with(""), nil, "is empty"},
		{"a password that TCP cannot take", "spine", "frr", with(strings.Repeat("x", 81)), nil, "80 bytes"},
		{"a password with a line of its own", "spine", "frr", with("a\n no router bgp"), nil, "character"},
		{"a password with a quote", "spine", "bird", with(`a"; reject; "`), nil, "character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := Render(inv, c.router, c.language, c.options)
			switch {
			case err == nil:
				t.Fatalf("got\n%s", out)
			case c.kind != nil && !errors.Is(err, c.kind), !strings.Contains(err.Error(), c.text):
				t.Errorf("got %v", err)
			}
			if word := c.options.Passwords[key]; word != "" && strings.Contains(err.Error(), word) {
				t.Error("the error shows the password")
			}
		})
	}
}

func TestRangesTakeThePlaceOfNeighbours(t *testing.T) {
	inv := subjects(t)["two-rack"]
	for _, language := range []string{"frr", "bird"} {
		got, err := Render(inv, "tor-r01", language, Options{Dynamic: true})
		if err != nil {
			t.Fatal(err)
		}
		golden.Hold(t, filepath.Join("testdata", "golden", "two-rack", "tor-r01."+language+".dynamic.conf"), got)
	}
}

// ranged is of two racks: the subnets of each, the AS number of the second and its
// machine are to be filled in. The first rack's AS number is 64514.
const ranged = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 10.0.0.1, asn: 64513, os: frr}]
  racks:
    - {name: r1, subnets: [%s], machines: [{name: w1, addresses: [10.0.0.11]}]}
    - {name: r2, subnets: [%s], asn: %d, machines: [%s]}
  pools: [{name: default, addresses: [192.0.2.0/26]}]
`

func TestRangesAreRefusedWhereTheyCannotDoWhatNeighboursDo(t *testing.T) {
	for _, c := range []struct {
		name, language, one, two string
		asn                      int
		want                     string
	}{
		{"a language without ranges", "eos", "10.0.0.0/24", "10.0.1.0/24", 64514, "Arista EOS has no word"},
		{"a rack without subnets", "frr", "10.0.0.0/24", "", 64514, "rack r2 has no subnets"},
		{"a rack without subnets of the family", "bird", "10.0.0.0/24", `"2001:db8::/64"`, 64514, "rack r2 has no subnets"},
		{"two sets of terms in one subnet", "frr", "10.0.0.0/23", "10.0.0.0/23", 64515, "the sessions of racks r1 and r2 differ, and come from the same subnet"},
		{"two sets of terms in two subnets", "bird", "10.0.0.0/24", "10.0.1.0/24", 64515, ""},
		{"nothing to refuse", "frr", "10.0.0.0/24", "10.0.1.0/24", 64514, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inv := loaded(t, fmt.Sprintf(ranged, c.one, c.two, c.asn, "{name: w2, addresses: [10.0.1.11]}"))
			_, err := Render(inv, "gateway", c.language, Options{Dynamic: true})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrCannot) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A machine that nobody mentions any more is held where it was, though its rack has
// other subnets by now.
func TestRangesAreRefusedForAMachineOutsideItsRacksSubnets(t *testing.T) {
	was := loaded(t, fmt.Sprintf(ranged, "10.0.0.0/24", "10.0.1.0/24", 64514, "{name: w2, addresses: [10.0.1.11]}"))
	next := loaded(t, fmt.Sprintf(ranged, "10.0.0.0/24", "10.0.2.0/24", 64514, "{name: w3, addresses: [10.0.2.11]}"))
	inv, problems := edit.Admit(next, was)
	if inv == nil {
		t.Fatal(problems)
	}
	const want = "machine w2 has the address 10.0.1.11, which is in none of rack r2's subnets"
	if _, err := Render(inv, "gateway", "frr", Options{Dynamic: true}); !errors.Is(err, ErrCannot) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func loaded(t *testing.T, text string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(text)})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

func TestARouterHasTheNeighboursOfItsOwnLink(t *testing.T) {
	inv := loaded(t, `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 64514, ttlSecurity: true}
  routers: [{name: a, address: 10.1.0.1, asn: 64513}, {name: b, address: 10.2.0.1, asn: 64513}]
  racks: [{name: r1, subnets: [10.1.0.0/24, 10.2.0.0/24], machines: [{name: w1, addresses: [10.1.0.11, 10.2.0.11]}]}]
  pools: [{name: default, addresses: [192.0.2.0/26]}]
`)
	for _, language := range inventory.Languages() {
		for router, addr := range map[string]struct{ own, other string }{"a": {"10.1.0.11", "10.2.0.11"}, "b": {"10.2.0.11", "10.1.0.11"}} {
			out, err := Render(inv, router, language, Options{})
			if errors.Is(err, ErrCannot) {
				continue
			}
			if text := string(out); err != nil || !strings.Contains(text, addr.own) || strings.Contains(text, addr.other) {
				t.Errorf("%s, router %s: %v\n%s", language, router, err, text)
			}
		}
	}
}

func TestALinkLocalRouterIsRefused(t *testing.T) {
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 64514}
  routers: [{name: tor, address: "fe80::1%eth0", asn: 64513}]
  racks: [{name: r1, machines: [{name: w1, addresses: [10.0.0.11]}]}]
  pools: [{name: default, addresses: [192.0.2.0/26]}]
`)})
	if inv == nil {
		t.Fatal(problems)
	}
	if out, err := Render(inv, "tor", "frr", Options{}); !errors.Is(err, ErrCannot) || !strings.Contains(err.Error(), "fe80::1%eth0") {
		t.Errorf("got %v\n%s", err, out)
	}
}

func TestAPasswordStandsOnlyWhereItWasGiven(t *testing.T) {
	inv := subjects(t)["every-option"]
	for _, language := range inventory.Languages() {
		for _, router := range []string{"spine", "core"} {
			out, err := Render(inv, router, language, Options{Passwords: passwords})
			if errors.Is(err, ErrCannot) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(string(out), "open-sesame"); has != (router == "spine") {
				t.Errorf("%s, %s: password shown: %v", router, language, has)
			}
		}
	}
}

func TestTheSumChangesOnlyWithWhatTheRouterMustKnow(t *testing.T) {
	const text = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  labels: {example.com/owner: %s}
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513, os: frr}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [%s]}]}]
  pools: [{name: default, addresses: [192.168.50.0/26]}]
`
	render := func(owner, addr string) string {
		inv, problems := document.Load(document.Document{Source: "home.yaml", Data: fmt.Appendf(nil, text, owner, addr)})
		if inv == nil {
			t.Fatal(problems)
		}
		out, err := Render(inv, "gateway", "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(out), "\n")[2]
	}
	was := render("ann", "192.168.1.11")
	if is := render("bob", "192.168.1.11"); is != was {
		t.Errorf("a label changed the sum from %q to %q", was, is)
	}
	if is := render("ann", "192.168.1.12"); is == was {
		t.Errorf("an address did not change the sum %q", was)
	}
}
