package source

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
)

func configMap(name string, age time.Duration, data map[string]string) *v1.ConfigMap {
	cm := &v1.ConfigMap{Data: data}
	cm.Name, cm.Namespace = name, "kube-system"
	cm.Labels = map[string]string{LabelInventory: "dc1"}
	cm.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
	return cm
}

func sources(e Edit) []string {
	var out []string
	for _, d := range e.Documents {
		out = append(out, d.Source)
	}
	return out
}

func TestConfigMapsMakeOneEdit(t *testing.T) {
	yaml := func(keys ...string) map[string]string {
		out := map[string]string{}
		for _, k := range keys {
			out[k] = "x"
		}
		return out
	}
	cases := map[string]struct {
		have []*v1.ConfigMap
		want []string
	}{
		"every key that is a document, sorted": {
			have: []*v1.ConfigMap{configMap("racks", 0, yaml("b.yaml", "a.json", "readme.txt")), configMap("base", 0, yaml("c.yml"))},
			want: []string{"configmap/kube-system/base/c.yml", "configmap/kube-system/racks/a.json", "configmap/kube-system/racks/b.yaml"},
		},
		"of kustomize's copies only the youngest": {
			have: []*v1.ConfigMap{configMap("dc1-2tg9k6h4fc", time.Hour, yaml("a.yaml")), configMap("dc1-m8b7ck72fg", 0, yaml("a.yaml")), configMap("dc1-pools", 0, yaml("p.yaml"))},
			want: []string{"configmap/kube-system/dc1-m8b7ck72fg/a.yaml", "configmap/kube-system/dc1-pools/p.yaml"},
		},
		"names that only look alike are all read": {
			have: []*v1.ConfigMap{configMap("dc1-racka", time.Hour, yaml("a.yaml")), configMap("dc1-rackb", 0, yaml("b.yaml"))},
			want: []string{"configmap/kube-system/dc1-racka/a.yaml", "configmap/kube-system/dc1-rackb/b.yaml"},
		},
		"none": {},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			for _, cm := range c.have {
				if err := store.Add(cm); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(c.want, sources(read(store))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheAnnotationSaysHowManyMachinesMayGo(t *testing.T) {
	cases := map[string]struct {
		written  string
		want     int
		problems int
	}{
		"a number":       {"3", 3, 0},
		"zero":           {"0", 0, 0},
		"a percentage":   {"5%", 0, 1},
		"less than none": {"-1", 0, 1},
		"empty":          {"", 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e Edit
			cm := configMap("dc1", 0, nil)
			cm.Annotations = map[string]string{edit.AnnotationAllowRemovals: c.written}
			e.add(cm)
			if e.Allowance.Removals != c.want || len(e.Problems) != c.problems {
				t.Errorf("%d allowed, problems: %s", e.Allowance.Removals, e.Problems)
			}
			if e.Problems.Err() != nil {
				t.Errorf("it would stop every edit: %s", e.Problems)
			}
		})
	}
}

// TestOfTwoInventoriesTheOneThatIsNotInForceIsRefused, in whatever order their ConfigMaps are read.
func TestOfTwoInventoriesTheOneThatIsNotInForceIsRefused(t *testing.T) {
	of := func(name string) document.Document {
		return document.Document{Source: "configmap/kube-system/" + name, Data: []byte("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: " + name + "}\nspec: {bgp: {asn: 65010}}\n")}
	}
	both := Edit{Documents: []document.Document{of("aaa"), of("lab")}}
	for _, c := range []struct {
		inForce *inventory.Inventory
		refused string
	}{
		{nil, "lab"}, // there is no better reason
		{&inventory.Inventory{Name: "aaa"}, "lab"},
		{&inventory.Inventory{Name: "lab"}, "aaa"},
		{&inventory.Inventory{Name: "former"}, "lab"},
	} {
		verdict, err := edit.Decide(both.proposal(""), c.inForce, edit.Evidence{Known: c.inForce})
		problems := verdict.Problems
		if err != nil || verdict.Phase != edit.Refused || len(problems) != 1 || problems[0].Code != inventory.OtherInventory || problems[0].Value != c.refused || problems[0].Source != "configmap/kube-system/"+c.refused {
			t.Errorf("with %v in force: %s, want %s refused", c.inForce, problems, c.refused)
		}
	}
}

func TestALabelThatNamesAnotherInventoryIsAnError(t *testing.T) {
	carriers := []Carrier{{Inventory: "dc1"}, {Inventory: "dc2"}}
	got := mislabelled(carriers, "dc1")
	if len(got) != 1 || got[0].Code != inventory.OtherInventory || got[0].Value != "dc2" {
		t.Errorf("%s", got)
	}
}
