package routerconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// session is an inventory of one session; its router's settings and the language are to be
// filled in.
const session = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: site}
spec:
  bgp: {asn: 64514}
  bfdProfiles: [{name: fast, interval: 100ms}]
  routers: [{name: tor, %s%s}]
  racks: [{name: r1, machines: [{name: w1, addresses: [10.0.0.11, "2001:db8::b"]}]}]
  pools: [{name: default, addresses: [192.0.2.0/26]}]
`

// settings are all that a session may have and a language may lack.
var settings = map[string]string{
	"plain":                "address: 10.0.0.1, asn: 64513",
	"IPv6":                 `address: "2001:db8::1", asn: 64513`,
	"both":                 `addresses: [10.0.0.1, "2001:db8::1"], asn: 64513`,
	"iBGP":                 "address: 10.0.0.1, asn: 64514",
	"BFD":                  "address: 10.0.0.1, asn: 64513, bfd: fast",
	"TTL security":         "address: 10.0.0.1, asn: 64513, ttlSecurity: true",
	"TTL security of iBGP": "address: 10.0.0.1, asn: 64514, ttlSecurity: true",
	"multihop":             "address: 10.0.0.1, asn: 64513, multihop: 2",
	"port":                 "address: 10.0.0.1, asn: 64513, port: 1179",
	"password":             "address: 10.0.0.1, asn: 64513, passwordFrom: {secret: bgp, key: tor}",
	"default routes":       "address: 10.0.0.1, asn: 64513, learn: default",
	"no graceful restart":  `address: 10.0.0.1, asn: 64513, gracefulRestart: "off"`,
	"link-local":           `address: "fe80::1%eth0", asn: 64513`,
}

// What is valid can be written, and what cannot be written is not valid: nobody learns
// that first from router-config.
func TestAnInventoryIsValidIfAndOnlyIfItsRoutersSideCanBeWritten(t *testing.T) {
	refused := map[string][]string{}
	for _, language := range inventory.Languages() {
		for name, setting := range settings {
			bare := loaded(t, fmt.Sprintf(session, setting, ""))
			text, err := Render(bare, "tor", language, Options{})
			if err != nil && !errors.Is(err, ErrCannot) {
				t.Fatal(err)
			}
			_, problems := document.Load(document.Document{Source: "site.yaml", Data: fmt.Appendf(nil, session, setting, ", os: "+language)})
			errs := problems.Errors()
			if (err != nil) != (len(errs) > 0) {
				t.Errorf("%s, %s: writing it: %v; validating it: %v\n%s", language, name, err, problems, text)
			}
			if len(errs) > 0 {
				refused[language] = append(refused[language], name)
				if p := errs[0]; len(errs) != 1 || p.Code != inventory.CannotWrite || p.Path != "spec.routers[tor].os" || !strings.HasPrefix(p.Message, language+" cannot do ") {
					t.Errorf("%s, %s: got %v", language, name, problems)
				}
			}
		}
	}
	want := map[string][]string{
		"frr": {"link-local"}, "bird": {"link-local"}, "openbgpd": {"BFD", "link-local"},
		"opnsense": {"TTL security", "TTL security of iBGP", "link-local", "port"},
		"routeros": {"TTL security of iBGP", "link-local"},
		"eos":      {"link-local", "port"}, "junos": {"link-local", "port"}, "nvue": {"link-local", "port"},
		"unifi": {"link-local", "port"}, "vyos": {"link-local", "port"},
	}
	for language := range refused {
		slices.Sort(refused[language])
	}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Errorf("sessions that each language refuses (-want +got):\n%s", diff)
	}
}

func TestEveryLanguageOfAnInventoryCanBeWritten(t *testing.T) {
	if got, writes := inventory.Languages(), slices.Sorted(maps.Keys(dialects)); !slices.Equal(got, writes) {
		t.Errorf("an inventory may say %v, and Render writes %v", got, writes)
	}
}
