package main

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
)

func TestWhatIsInForceIsPutTogetherFromItsSlices(t *testing.T) {
	inv, problems := document.Load(document.Document{Source: "home.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
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
	client := fake.NewClientset(inForceOf(inv))
	got, err := acceptedIn(t.Context(), client, "kube-system")
	if err != nil || !document.Equal(got, inv) {
		t.Errorf("%v\n%s", err, document.FormatAccepted(got))
	}
	if _, err := acceptedIn(t.Context(), client, "other"); err == nil || !strings.Contains(err.Error(), "no inventory is in force") {
		t.Errorf("a namespace without one: %v", err)
	}

	spoilt := inForceOf(inv)
	spoilt.Items[len(spoilt.Items)-1].Data["racks"] = "a 9\n"
	got, err = acceptedIn(t.Context(), fake.NewClientset(spoilt), "kube-system")
	if got == nil || !errors.Is(err, source.ErrUnreadable) || !strings.HasSuffix(err.Error(), "kubectl -n kube-system delete configmap -l plinth.dev/accepted") {
		t.Errorf("what cannot be read as a whole: %v, %v", got, err)
	}
}
