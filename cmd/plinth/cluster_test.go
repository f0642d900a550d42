package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory"
)

func TestWhatIsInForceIsPutTogetherFromItsSlices(t *testing.T) {
	inv, problems := inventory.Load(inventory.Document{Source: "home.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  podNetwork: {mode: direct, cidrs: [10.244.0.0/16]}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks:
    - {name: a, machines: [{name: nuc1, addresses: [192.168.1.11]}]}
    - {name: b, machines: [{name: nuc2, addresses: [192.168.1.12]}]}
`)})
	if inv == nil {
		t.Fatal(problems)
	}
	slice := func(name string, part *inventory.Inventory) *v1.ConfigMap {
		return &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"plinth.dev/accepted": "home"},
				Annotations: map[string]string{"plinth.dev/generation": "1"}},
			Data: map[string]string{"inventory.yaml": string(part.FormatAccepted())},
		}
	}
	common := slice("plinth-accepted", inv.Common())
	common.Data["racks"] = "a 1\nb 1\n"
	client := fake.NewClientset(common, slice("plinth-accepted-a", inv.Slice("a")), slice("plinth-accepted-b", inv.Slice("b")))
	got, err := acceptedIn(t.Context(), client, "kube-system")
	if err != nil || !got.Equal(inv) {
		t.Errorf("%v\n%s", err, got.FormatAccepted())
	}
	if _, err := acceptedIn(t.Context(), client, "other"); err == nil || !strings.Contains(err.Error(), "no inventory is in force") {
		t.Errorf("a namespace without one: %v", err)
	}
}
