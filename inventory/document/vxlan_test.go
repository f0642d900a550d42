package document_test

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

func overlayWith(t *testing.T, vxlan string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "x.yaml", Data: fmt.Appendf(nil, `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  podNetwork: {mode: overlay, cidrs: [10.244.0.0/16]%s}
`, vxlan)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestTheTunnelsPortAndNetworkAreKeptWhereTheyAreNotTheUsualOnes(t *testing.T) {
	for _, tt := range []struct {
		written string
		want    inventory.VXLAN
		printed string // of it; empty: nothing
	}{
		{"", inventory.VXLAN{Port: 4789, VNI: 114}, ""},
		{", vxlan: {port: 4789, vni: 114}", inventory.VXLAN{Port: 4789, VNI: 114}, ""},
		{", vxlan: {port: 8472}", inventory.VXLAN{Port: 8472, VNI: 114}, "vxlan:\n      port: 8472\n"},
		{", vxlan: {vni: 4096}", inventory.VXLAN{Port: 4789, VNI: 4096}, "vxlan:\n      vni: 4096\n"},
	} {
		inv := overlayWith(t, tt.written)
		accepted := document.FormatAccepted(inv)
		again, problems := document.ParseAccepted(document.Document{Source: "accepted", Data: accepted})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		if inv.PodNetwork.VXLAN != tt.want || again.PodNetwork.VXLAN != tt.want {
			t.Errorf("%q: %+v, and read back %+v; want %+v", tt.written, inv.PodNetwork.VXLAN, again.PodNetwork.VXLAN, tt.want)
		}
		if !strings.Contains(string(accepted), tt.printed) || tt.printed == "" && strings.Contains(string(accepted), "vxlan") {
			t.Errorf("%q is stored as\n%s", tt.written, accepted)
		}
	}
	d := edit.Diff(overlayWith(t, ""), overlayWith(t, ", vxlan: {port: 8472}"))
	if got := fmt.Sprint(d.Settings); !strings.Contains(got, "spec.podNetwork.vxlan.port") {
		t.Errorf("a diff does not show it: %s", got)
	}
}
