package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
)

const simulated3 = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
  pools: [{name: public, addresses: [203.0.113.0/25], advertise: {weighted: true}}]
  racks:
    - name: r1
      routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]
      machines: [{name: w1, addresses: [10.1.0.11]}, {name: w2, addresses: [10.1.0.12]}]
    - name: r2
      routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]
      machines: [{name: w3, addresses: [10.2.0.13]}, {name: w4, addresses: [10.2.0.14]}]
`

// lists are the objects of a cluster with the Services web, on w1, w2 and w3, and single, on w3
// alone. Nothing is heard of w4.
func lists() map[string]any {
	nodes := v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		ready := v1.ConditionTrue
		if name == "w4" {
			ready = v1.ConditionUnknown
		}
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}, {Type: "plinth.dev/FabricReady", Status: v1.ConditionTrue}}
		nodes.Items = append(nodes.Items, n)
	}
	services := v1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}}
	claims := networkingv1.IPAddressList{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddressList"}}
	slices := discoveryv1.EndpointSliceList{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"}}
	for name, on := range map[string][]string{"web": {"w1", "w2", "w2", "w2", "w3"}, "single": {"w3"}} {
		vip := map[string]string{"web": "203.0.113.1", "single": "203.0.113.2"}[name]
		s := v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = v1.ServiceTypeLoadBalancer, v1.ServiceExternalTrafficPolicyLocal
		services.Items = append(services.Items, s)
		claims.Items = append(claims.Items, networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: vip, Labels: map[string]string{"ipaddress.kubernetes.io/managed-by": "plinth.dev"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: name}},
		})
		slice := discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		ready := true
		for i, node := range on {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.244.0." + string(rune('1'+i))}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
		}
		slices.Items = append(slices.Items, slice)
	}
	return map[string]any{
		"/api/v1/nodes": nodes, "/api/v1/services": services,
		"/apis/networking.k8s.io/v1/ipaddresses": claims, "/apis/discovery.k8s.io/v1/endpointslices": slices,
	}
}

// inForce3 has a cluster with these objects, or one that shows nobody its Services.
func inForce3(t *testing.T, objects map[string]any) {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(simulated3)})
	if inv == nil {
		t.Fatal(problems)
	}
	if inv, problems = inventory.Carve(inv, nil); inv == nil {
		t.Fatal(problems)
	}
	clusterThatHas(t, inv, objects)
}

const w4Silent = "Not known: nothing is heard of w4: counted as if not there\n"

func TestServicesOfTheClusterAreNamedThatAFailureTakes(t *testing.T) {
	inForce3(t, lists())
	proposed := filepath.Join(t.TempDir(), "edit.yaml")
	if err := os.WriteFile(proposed, []byte(strings.Replace(simulated3, "203.0.113.0/25", "203.0.113.0/31", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--fail", "machine/w1"}, exitDegraded, "Next hops:\n  router tor-r1, 203.0.113.1: w1 25%, w2 75% -> w2\n"},
		{[]string{"--fail", "machine/w3"}, exitDegraded, "Unreachable:\n  service default/single loses 203.0.113.2: every machine that announces it has failed\n  rack r2 has no machine left that runs pods\n" +
			"Left with one machine or one router:\n  service default/web has one router left for 203.0.113.1: tor-r1\n" +
			"Next hops:\n  router tor-r2, 203.0.113.1: w3 -> no next hop\n"},
		{[]string{proposed}, exitDegraded, "Unreachable:\n  service default/single loses 203.0.113.2: no pool has it\n"},
		{[]string{proposed, "--fail", "machine/w1"}, exitDegraded, "Unreachable:\n  service default/single loses 203.0.113.2: no pool has it\nNext hops:\n  router tor-r1, 203.0.113.1: w1 25%, w2 75% -> w2\n"},
		{nil, exitGood, "nothing differs\n"},
		{[]string{"cluster"}, exitGood, "nothing differs\n"},
		{[]string{"--each", "router"}, exitDegraded, "FAILS           VIPS LOST   LEFT WITH ONE   SHIFTED   POD PATHS CUT   WHICH VIPS ARE LOST\n" +
			"router/tor-r1   0           1               1         2               -\nrouter/tor-r2   1           1               1         2               203.0.113.2\n"},
	} {
		var out, errs bytes.Buffer
		code := run(append([]string{"simulate"}, tt.args...), nil, &out, &errs)
		if d := cmp.Diff(tt.want+w4Silent, out.String()); d != "" || code != tt.code {
			t.Errorf("plinth simulate %q ends with %d, and says %s\n-want +got\n%s", tt.args, code, &errs, d)
		}
	}
}

func TestWhoMayNotReadServicesLearnsTheRest(t *testing.T) {
	inForce3(t, nil)
	var out, errs bytes.Buffer
	code := run([]string{"simulate", "--fail", "router/tor-r1"}, nil, &out, &errs)
	for _, want := range []string{"service pool/public has one router left for 203.0.113.0: tor-r2", "Not known: Services, their endpoints and Nodes"} {
		if code != exitDegraded || !strings.Contains(out.String(), want) || !strings.Contains(errs.String(), "Warning: ") {
			t.Errorf("it ends with %d, without %q:\n%s\n%s", code, want, &out, &errs)
		}
	}
}

// simulateCommand finds the commands of the guide.
var simulateCommand = regexp.MustCompile(`(?m)^plinth simulate.*$`)

// Each command of the guide is run on the files of an example that is in force.
func TestTheCommandsOfTheGuideOfFailuresWork(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/before-you-pull-a-cable.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "inventory"), os.DirFS(filepath.Join(examples, "two-rack"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	proposed, err := source.Read("inventory")
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := loaded(proposed)
	if inv == nil {
		t.Fatal(problems)
	}
	clusterWith(t, inv)
	commands := simulateCommand.FindAllString(string(text), -1)
	if len(commands) < 10 {
		t.Fatalf("the guide has the commands %q", commands)
	}
	for _, command := range commands {
		var out, errs bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(command, "plinth "), "/tmp/main/", ""))
		want := exitGood // the edit is what is in force, and each VIP has several machines
		if strings.Contains(command, "--fail") || strings.Contains(command, "--each") && !strings.Contains(command, "--each machine") {
			want = exitDegraded
		}
		if code := run(args, nil, &out, &errs); code != want || out.Len() == 0 {
			t.Errorf("%s ends with %d and prints\n%s%s", command, code, &out, &errs)
		}
	}
}
