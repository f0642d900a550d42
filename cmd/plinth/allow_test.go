package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestALeaveIsWrittenOnTheInventory(t *testing.T) {
	carrier := func(name, label string) *v1.ConfigMap {
		return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{label: "dc1"}}}
	}
	accepted := carrier("plinth-accepted", "plinth.dev/accepted")
	for _, c := range []struct {
		what    string
		objects []*v1.ConfigMap
		on      []string
	}{
		{"the first that carries it", []*v1.ConfigMap{accepted, carrier("racks", "plinth.dev/inventory"), carrier("pools", "plinth.dev/inventory")}, []string{"plinth-accepted", "pools"}},
		{"what was accepted, where it comes from files", []*v1.ConfigMap{accepted}, []string{"plinth-accepted"}},
	} {
		client := fake.NewClientset()
		for _, o := range c.objects {
			if err := client.Tracker().Add(o.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time it is there
			if _, err := allow(t.Context(), client, "kube-system", "0123456789abcdef"); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
		}
		if _, err := allow(t.Context(), client, "kube-system", "fedcba9876543210"); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, name := range c.on {
			cm, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || cm.Annotations["plinth.dev/allow"] != "0123456789abcdef,fedcba9876543210" {
				t.Errorf("%s: %s: %v %v", c.what, name, cm.Annotations, err)
			}
		}
	}
	if _, err := allow(t.Context(), fake.NewClientset(), "kube-system", "0123456789abcdef"); err == nil {
		t.Error("written though nothing is in force")
	}
}
