package provider

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
)

// TestWhereNoKubeletIsHeardOfNobodyIsTakenForGone: new terms of sessions would come into force untried.
func TestWhereNoKubeletIsHeardOfNobodyIsTakenForGone(t *testing.T) {
	inv, problems := document.Parse(document.Document{Source: "home.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}, {name: nuc2, addresses: [192.168.1.12]}]}]
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	node := func(name string, ready v1.ConditionStatus, agent bool) *v1.Node {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		if agent {
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: lb.FabricReady, Status: v1.ConditionTrue})
		}
		return n
	}
	for _, tt := range []struct {
		name  string
		nodes []*v1.Node
		know  int
		err   error
	}{
		{"no Node is there yet", nil, 0, nil},
		{"no agent has ever said anything", []*v1.Node{node("nuc1", v1.ConditionTrue, false)}, 0, nil},
		{"one machine is dead", []*v1.Node{node("nuc1", v1.ConditionUnknown, true), node("nuc2", v1.ConditionTrue, true)}, 1, nil},
		{"nobody is heard of", []*v1.Node{node("nuc1", v1.ConditionUnknown, true), node("nuc2", v1.ConditionUnknown, true)}, 0, errNoKubelet},
	} {
		if all, err := agentsOf(inv, tt.nodes, stake{}); len(all) != tt.know || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v", tt.name, all, err)
		}
	}
}
