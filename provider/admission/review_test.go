package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plinth.dev/plinth/inventory/source"
)

const (
	good = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec:\n  racks:\n    - {name: r1, units: 42, machines: [{name: w1, unit: 1, addresses: [10.1.1.11]}]}\n"
	head = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec:\n"
)

func typo() string { return strings.Replace(good, "unit: 1", "unti: 1", 1) }

// configMap carries documents by key.
func configMap(data map[string]string) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: data}
	cm.Namespace, cm.Name = "kube-system", "inventory"
	cm.Labels = map[string]string{source.LabelInventory: "home"}
	return cm
}

func request(t *testing.T, now, before *v1.ConfigMap) *admissionv1.AdmissionRequest {
	t.Helper()
	raw := func(cm *v1.ConfigMap) (r runtime.RawExtension) {
		data, err := json.Marshal(cm)
		if err != nil {
			t.Fatal(err)
		}
		r.Raw = data
		return r
	}
	r := &admissionv1.AdmissionRequest{UID: "42", Operation: admissionv1.Create, Namespace: "kube-system", Object: raw(now)}
	if before != nil {
		r.Operation, r.OldObject = admissionv1.Update, raw(before)
	}
	return r
}

func TestATypoIsRefusedWithItsPlaceAndASuggestion(t *testing.T) {
	got := Review(request(t, configMap(map[string]string{"racks.yaml": typo(), "notes.txt": "{"}), nil))
	const want = `the inventory has an error here, and the ConfigMap stays as it was:
configmap/kube-system/inventory/racks.yaml:6:51: error[P0201]: spec.racks[r1].machines[w1].unti: is an unknown key; got "unti"; `
	if got.Allowed || got.UID != "42" || !strings.HasPrefix(got.Result.Message, want) || !strings.Contains(got.Result.Message, `did you mean "unit"?`) {
		t.Errorf("%+v\n%v", got, got.Result)
	}
	if got.Result.Code != 422 || !strings.HasSuffix(got.Result.Message, "\nplinth explain P0201 says more") {
		t.Errorf("%+v", got.Result)
	}
}

func TestWhatIsJudged(t *testing.T) {
	unlabelled := configMap(map[string]string{"a.yaml": typo()})
	unlabelled.Labels = nil
	other := configMap(map[string]string{"a.yaml": good})
	other.Labels[source.LabelInventory] = "office"
	allow := configMap(map[string]string{"a.yaml": typo()})
	allow.Annotations = map[string]string{"plinth.dev/allow": "3f2a"}
	binary := configMap(nil)
	binary.BinaryData = map[string][]byte{"a.yaml": []byte(typo())}
	spec := func(text string) *v1.ConfigMap { return configMap(map[string]string{"a.yaml": head + text}) }
	for _, c := range []struct {
		name        string
		now, before *v1.ConfigMap
		refused     string // a part of the message; empty: it is let through
		warning     string // a part of the first; empty: there is none
	}{
		{"a valid inventory", configMap(map[string]string{"a.yaml": good}), nil, "", ""},
		{"a mended one", configMap(map[string]string{"a.yaml": good}), configMap(map[string]string{"a.yaml": typo()}), "", ""},
		{"a broken one in place of a good one", configMap(map[string]string{"a.yaml": typo()}), configMap(map[string]string{"a.yaml": good}), "P0201", ""},
		{"an annotation on a broken one", allow, configMap(map[string]string{"a.yaml": typo()}), "", "P0201"},
		{"no YAML", configMap(map[string]string{"a.yaml": "a: [1"}), nil, "inventory/a.yaml:2:1: error[P0101]", ""},
		{"binary data", binary, nil, "P0201", ""},
		{"a bad value", spec("  pools: [{name: p, addresses: [10.0.0.1/24]}]\n"), nil, "P0304", ""},
		{"another inventory's label", other, nil, "metadata.labels[plinth.dev/inventory]", ""},
		{"two inventories", configMap(map[string]string{"a.yaml": good, "b.yaml": strings.Replace(good, "home", "office", 1)}), nil, "P0105", ""},
		{"a router that another ConfigMap may have", spec("  racks: [{name: r1, peers: [tor]}]\n"), nil, "", ""},
		{"a community that another ConfigMap may have", spec("  pools: [{name: p, addresses: [10.0.0.0/24], advertise: {communities: [public]}}]\n"), nil, "", ""},
		{"an expectation that another ConfigMap may meet", spec("  expect: {racks: [r9]}\n"), nil, "", ""},
		{"a part of podNetwork", spec("  podNetwork: {cidrs: [10.244.0.0/16]}\n"), nil, "", ""},
		{"a warning", spec("  racks: [{name: r1, machines: [{name: w1, unit: 1, addresses: [10.1.1.1]}, {name: w2, unit: 1, addresses: [10.1.1.2]}]}]\n"), nil, "", "stands in that unit too"},
		{"no inventory at all", configMap(map[string]string{"notes.txt": "hello"}), nil, "", ""},
		{"a ConfigMap of somebody else", unlabelled, nil, "", ""},
		{"a label taken off", unlabelled, configMap(map[string]string{"a.yaml": typo()}), "", "no part of the inventory any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Review(request(t, c.now, c.before))
			said := ""
			if got.Result != nil {
				said = got.Result.Message
			}
			if got.Allowed != (c.refused == "") || !strings.Contains(said, c.refused) {
				t.Errorf("allowed %v: %s", got.Allowed, said)
			}
			if warned := strings.Join(got.Warnings, "\n"); (warned == "") != (c.warning == "") || !strings.Contains(warned, c.warning) {
				t.Errorf("warnings %q", got.Warnings)
			}
		})
	}
}

func TestManyProblemsAreAShortMessage(t *testing.T) {
	text := good
	for i := range 500 {
		text += fmt.Sprintf("    - {name: r%d, unitz: 1}\n", i+2)
	}
	got := Review(request(t, configMap(map[string]string{"a.yaml": text}), nil))
	if said := got.Result.Message; len(said) > errorBytes+200 || !strings.Contains(said, "has 500 errors") || !strings.Contains(said, " more: plinth validate prints all") {
		t.Errorf("%d bytes: %s", len(said), said)
	}
}

func TestAnObjectThatCannotBeReadIsLetThrough(t *testing.T) {
	r := request(t, configMap(nil), nil)
	r.Object.Raw = []byte(`{"data": 1}`)
	if got := Review(r); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("%+v", got)
	}
}
