package deploy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
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

// TestHelmGivesTheRightToReadTheLeaseOfBefore has what the chart asks of a cluster answered: the installation there runs on a lease
// that neither the chart nor its values name.
func TestHelmGivesTheRightToReadTheLeaseOfBefore(t *testing.T) {
	answers := map[string]string{
		"/api/v1":       `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","verbs":["list"]},{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get"]}]}`,
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[]}`,
		"/api/v1/namespaces/plinth-system/configmaps/plinth-accepted": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"plinth-accepted","annotations":{"plinth.dev/lease":"before"}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answers[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
	defer server.Close()
	for namespace, want := range map[string]string{ownNamespace: "[before cloud-controller-manager plinth]", "elsewhere": "[cloud-controller-manager plinth]"} {
		chart := must(t)(loader.LoadDir(chartFolder)).(*chartv2.Chart)
		options := common.ReleaseOptions{Name: "plinth", Namespace: namespace, Revision: 2, IsUpgrade: true}
		all := must(t)(util.ToRenderValues(chart, values{"controller": values{"leaseName": "plinth"}}, options, nil)).(common.Values)
		files := must(t)(engine.New(&rest.Config{Host: server.URL}).Render(chart, all)).(map[string]string)
		rights := objects(t, files["plinth/templates/rbac-ccm.yaml"])
		for kind, verb := range map[string]string{"ClusterRole": "list", "Role": "update"} {
			if got := fmt.Sprint(leasesOf(rights, kind, verb)); got != want {
				t.Errorf("in %s a %s gives %s of leases %s, want %s", namespace, kind, verb, got, want)
			}
		}
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
