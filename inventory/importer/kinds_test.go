package importer

import (
	"slices"
	"testing"
)

func TestEachKindIsAskedForOnce(t *testing.T) {
	kinds := KindsOf("nodes", "kube-vip", "servicelb")
	count := map[string]int{}
	for _, k := range kinds {
		count[k.Kind]++
	}
	for kind, n := range count {
		if n != 1 {
			t.Errorf("%s is there %d times", kind, n)
		}
	}
	for _, want := range []Kind{{"", "v1", "ConfigMap", kubeSystem}, {"apps", "v1", "DaemonSet", ""}, {"", "v1", "Node", ""}} {
		if !slices.Contains(kinds, want) {
			t.Errorf("%v is not in %v", want, kinds)
		}
	}
	if !slices.Contains(KindsOf("servicelb"), Kind{"apps", "v1", "DaemonSet", kubeSystem}) {
		t.Error("servicelb alone looks at DaemonSets of all namespaces")
	}
}
