package importer

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

var fromNetBox = Options{Sources: []string{"netbox"}}

func TestWhatAnObjectOfNetBoxIsItsURLSaysOrItsFields(t *testing.T) {
	for text, want := range map[string]string{
		`{"url": "https://n/api/dcim/devices/1/"}`:                            netboxDevice,
		`{"url": "/api/virtualization/virtual-machines/1/"}`:                  netboxVM,
		`{"url": "https://n/netbox/api/dcim/racks/1/"}`:                       netboxRack,
		`{"url": "https://n/api/plugins/bgp/bgpsession/1/"}`:                  "plugins/bgp/bgpsession",
		`{"url": "https://n/api/dcim/sites/1/", "device_type": 1, "role": 2}`: "dcim/sites",
		`{"device_type": 1, "device_role": 2}`:                                netboxDevice,
		`{"u_height": 42, "site": {}}`:                                        netboxRack,
		`{"prefix": "10.0.0.0/8", "status": {}}`:                              netboxPrefix,
		`{"address": "10.0.0.1/8", "status": {}}`:                             netboxAddress,
		`{"name": "x"}`: "",
		`[]`:            "",
	} {
		pages, _ := pagesOf([]byte(text))
		if got := netboxKind(pages[0]); got != want {
			t.Errorf("%s is %q, not %q", text, got, want)
		}
	}
}

func TestADocumentThatIsNotOfNetBoxIsAnError(t *testing.T) {
	for _, text := range []string{`{"name": "x"}`, `[{"name": "x"}]`, `{"count": 1, "results": [1]}`, `[1`, `{"detail": "Invalid token"}`} {
		if out, notes := Import(fromNetBox, document.Document{Source: "x.json", Data: []byte(text)}); out != nil || !notes.Failed() {
			t.Errorf("%s is read: %s %v", text, out, notes)
		}
	}
	for _, text := range []string{`[]`, `{"count": 0, "next": null, "results": []}`} {
		if out, notes := Import(fromNetBox, document.Document{Source: "x.json", Data: []byte(text)}); out == nil || len(notes) > 0 {
			t.Errorf("%s is not read: %v", text, notes)
		}
	}
}

// TestAFieldOfADeviceIsCarriedOrToldOf has fields of one device each, and what comes out.
func TestAFieldOfADeviceIsCarriedOrToldOf(t *testing.T) {
	for field, want := range map[string]string{
		`"status": {"value": "staged"}`:                       "state: planned",
		`"status": {"value": "offline"}`:                      `state: "off"`,
		`"status": {"value": "decommissioning"}`:              "Write state: retired once",
		`"status": "active"`:                                  "- name: w1",
		`"serial": "a b"`:                                     `"a b" is nothing that an id is made of`,
		`"position": "x"`:                                     "x is no whole unit",
		`"position": 0.5`:                                     "0.5 is no whole unit",
		`"primary_ip6": {"address": "fe80::1/64"}`:            "fe80::1/64 is no address that other machines reach it by",
		`"primary_ip6": {"address": "x"}`:                     "x is no address",
		`"custom_fields": {"asn": "x"}`:                       "is no AS number",
		`"custom_fields": {"asn": 65001}`:                     "asn: 65001",
		`"tags": [{"id": 1, "slug": "x"}]`:                    "tags (1)",
		`"some_future_field": {"a": 1}`:                       "some_future_field (1)",
		`"virtual_chassis": {"id": 3}, "tenant": {"id": 1}`:   "tenant (1), virtual_chassis (1)",
		`"platform": null, "config_context": {"a": {}}`:       "- name: w1",
		`"rack": {"name": "R1"}`:                              "- name: r1",
		`"location": {"name": "Hall A"}`:                      `location.name: "Hall A" is no value of a label`,
		`"site": {"slug": "fra1"}, "location": {"slug": "a"}`: "region: fra1",
	} {
		doc := document.Document{Source: "d.json", Data: []byte(`{"name": "w1", "device_type": null, "role": {"slug": "k8s-node"}, "primary_ip4": {"address": "10.0.0.1/24"}, ` + field + `}`)}
		out, notes := Import(fromNetBox, doc)
		if out == nil || !strings.Contains(told(out, notes), want) {
			t.Errorf("%s: not %s: %s", field, want, told(out, notes))
		}
		checkLaw(t, fromNetBox, doc)
	}
}

func TestARackHasTheASNumberOfItsFirstMachine(t *testing.T) {
	var items []string
	for i, asn := range []int{65001, 65001, 65002} {
		items = append(items, fmt.Sprintf(`{"name": "w%d", "device_type": null, "role": {"slug": "k8s-node"}, "primary_ip4": {"address": "10.0.0.%d/24"}, "custom_fields": {"asn": %d}}`, i, i+1, asn))
	}
	doc := document.Document{Source: "d.json", Data: []byte("[" + strings.Join(items, ",") + "]")}
	out, notes := Import(fromNetBox, doc)
	if !strings.Contains(told(out, notes), "device/w2 custom_fields.asn: 65002; other machines of rack default have 65001") {
		t.Error(told(out, notes))
	}
	checkLaw(t, fromNetBox, doc)
}

func FuzzNetBox(f *testing.F) {
	f.Add(`{"count": 1, "results": [{"name": "w1", "device_type": {"slug": "s"}, "role": {"slug": "k8s-node"}, "position": 1.0, "primary_ip4": {"address": "10.0.0.1/24"}}]}`)
	f.Add(`[{"prefix": "10.0.0.0/24", "status": {"value": "active"}, "tags": [{"slug": "k8s-lb"}]}, {"address": "10.0.0.1", "status": "active"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		out, notes := Import(fromNetBox, document.Document{Source: "x.json", Data: []byte(text)})
		if out == nil && !notes.Failed() {
			t.Errorf("nothing is written, and no note is an error: %v", notes)
		}
	})
}
