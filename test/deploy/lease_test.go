package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// flag is the value of a flag of a container; of several the last one counts, as for the program.
func flag(t *testing.T, container map[string]any, name string) (value string) {
	t.Helper()
	args, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range args {
		if v, is := strings.CutPrefix(arg, "--"+name+"="); is {
			value = v
		}
	}
	return value
}

// leasesOf are the names of leases that Roles and ClusterRoles name with a verb, sorted.
func leasesOf(all map[string]map[string]any, kind, verb string) (names []string) {
	for name, o := range all {
		rules, _, _ := unstructured.NestedSlice(o, "rules")
		if !strings.HasPrefix(name, kind+" ") {
			continue
		}
		for _, each := range rules {
			rule, _ := each.(map[string]any)
			resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
			verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
			if named, _, _ := unstructured.NestedStringSlice(rule, "resourceNames"); slices.Contains(resources, "leases") && slices.Contains(verbs, verb) {
				names = append(names, named...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkLease holds a manifest against the lease and the port that its controller is to have. Its rights name the usual lease,
// too, for it has to see who may still lead by that one.
func checkLease(t *testing.T, manifest, lease, port string) {
	t.Helper()
	all := objects(t, manifest)
	controller := container(t, all["Deployment plinth-cloud-controller-manager"])
	ports, _, _ := unstructured.NestedSlice(controller, "ports")
	if len(ports) == 0 {
		t.Fatal("the controller has no port")
	}
	https, _ := ports[0].(map[string]any)
	if got := fmt.Sprintf("%s %v %v %v", flag(t, controller, "secure-port"), https["name"], https["containerPort"], https["hostPort"]); got != port+" https "+port+" "+port {
		t.Errorf("flag and port are %s, want %s", got, port)
	}
	if got := flag(t, controller, "leader-elect-resource-name"); got != lease {
		t.Errorf("it leads by lease %s, want %s", got, lease)
	}
	want := []string{"cloud-controller-manager", lease}
	slices.Sort(want)
	want = slices.Compact(want)
	for _, c := range []struct{ kind, verb string }{{"ClusterRole", "list"}, {"Role", "get"}, {"Role", "update"}} {
		if got := leasesOf(all, c.kind, c.verb); !slices.Equal(got, want) {
			t.Errorf("a %s gives %s of leases %v, want %v", c.kind, c.verb, got, want)
		}
	}
}

func TestTheChartsControllerHasTheLeaseAndThePortOfItsValues(t *testing.T) {
	usual, err := template(ownNamespace, values{})
	if err != nil {
		t.Fatal(err)
	}
	checkLease(t, usual, "cloud-controller-manager", "10258")
	other, err := template(ownNamespace, values{
		"controller": values{"leaseName": "plinth", "port": 10270, "bindAddress": "0.0.0.0"},
		"agent":      values{"metricsPort": 10258}, // that of the other controller, on machines where that one is not
		"monitoring": values{"serviceMonitor": values{"enabled": true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkLease(t, other, "plinth", "10270")
	ports, _, _ := unstructured.NestedSlice(objects(t, other)["Service plinth-cloud-controller-manager"], "spec", "ports")
	if got := fmt.Sprint(ports); !strings.Contains(got, "port:10270") {
		t.Errorf("it is scraped at %s", got)
	}
}

// TestTheComponentGivesAnotherLeaseAndPort has it alone, and in each place of an overlay with all components.
func TestTheComponentGivesAnotherLeaseAndPort(t *testing.T) {
	for _, names := range [][]string{
		{"beside-another-controller"}, {"beside-another-controller", "own-namespace"},
		{"inventory-webhook", "beside-another-controller", "own-namespace"}, {"beside-another-controller", "inventory-webhook", "deny-external-ips", "on-link", "own-namespace"},
	} {
		t.Run(strings.Join(names, " "), func(t *testing.T) {
			manifest := component(t, names...)
			checkLease(t, manifest, "plinth-cloud-controller-manager", "10270")
			if own := slices.Contains(names, "own-namespace"); strings.Count(manifest, "namespace: kube-system\n") != 1 && own {
				t.Errorf("more than one RoleBinding is in kube-system:\n%s", manifest)
			}
		})
	}
}
