package real

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab"
)

// inState is an inventory in which a machine has a state.
func inState(inventory, machine, state string) string {
	return strings.Replace(inventory, "{name: "+machine+",", "{name: "+machine+", state: "+state+",", 1)
}

// TestTheRemovalLeavesNothing is the last story: it removes Plinth as the guide says.
func TestTheRemovalLeavesNothing(t *testing.T) {
	l, g := installed(t)
	vips := service(t, l, "web", corev1.ServiceExternalTrafficPolicyCluster)
	inventory := lab.Inventory(l.Topology)
	for _, m := range l.Topology.Machines() {
		inventory = inState(inventory, m.Name, "maintenance")
	}
	must(t, l.ApplyInventoryWithLosses(t.Context(), inventory))
	for _, vip := range vips {
		must(t, l.WaitGone(t.Context(), vip))
	}
	blocks, err := g.Commands("## Remove")
	must(t, err)
	for _, block := range blocks {
		if *install == "helm" {
			block = strings.Replace(block, "kubectl delete -k deploy/overlays/mine\n", "helm uninstall plinth -n plinth-system\n", 1)
		}
		_, err := g.Run(t.Context(), block)
		must(t, err)
	}
	traces, err := g.Run(t.Context(), strings.Join([]string{
		"kubectl get nodes,services,leases,configmaps,secrets,serviceaccounts,pods,daemonsets,deployments,ipaddresses -A -o json",
		"kubectl get clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings -o json",
	}, "\n"))
	must(t, err)
	for found := range plinthIn(t, traces) {
		t.Errorf("left after the removal: %s", found)
	}
	if _, err := l.Kube.CoordinationV1().Leases(lab.PlinthNamespace).Get(t.Context(), "cloud-controller-manager", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the leader's lease is left: %v", err)
	}
	// Kubernetes can delete the Service without Plinth.
	must(t, l.RemoveService(t.Context(), "web"))
	for _, m := range l.Topology.Machines() {
		rules, err := l.InMachine(t.Context(), m.Name, "sh", "-c", "ip rule; ip -6 rule; ip route show table 114 2>&1 || true")
		must(t, err)
		if strings.Contains(rules, "proto 114") {
			t.Errorf("left on machine %s: %s", m.Name, rules)
		}
	}
}

// plinthIn finds every string with Plinth's name in lists of objects, but for what
// Kubernetes keeps of who once wrote a field, and for a Node's provider ID, which
// nobody can change. It yields the object and the place.
func plinthIn(t *testing.T, lists string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(lists)); d.More(); {
		var list struct {
			Items []map[string]any `json:"items"`
		}
		must(t, d.Decode(&list))
		for _, item := range list.Items {
			meta := item["metadata"].(map[string]any)
			delete(meta, "managedFields")
			if spec, ok := item["spec"].(map[string]any); ok {
				delete(spec, "providerID")
			}
			kind, name := item["kind"].(string), meta["name"].(string)
			if status, ok := item["status"].(map[string]any); ok && kind == "Node" {
				delete(status, "images") // what containerd has on disk
			}
			search(item, "", func(path, value string) { found[kind+" "+name+": "+path+": "+value] = true })
		}
	}
	return found
}

func search(v any, path string, yield func(path, value string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if strings.Contains(k, "plinth") {
				yield(path, k)
			}
			search(x, path+"."+k, yield)
		}
	case []any:
		for _, x := range v {
			search(x, path, yield)
		}
	case string:
		if strings.Contains(v, "plinth") {
			yield(path, v)
		}
	}
}
