package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"plinth.dev/plinth/test/apiserver"
)

const chartFolder = "../../deploy/helm/plinth"

// values are what helm is given with --set and the like.
type values = map[string]any

var latest = values{
	"controller": values{"image": values{"tag": "latest"}},
	"agent":      values{"image": values{"tag": "latest"}},
}

func TestTheChartIsWithoutLint(t *testing.T) {
	for _, m := range lint.RunAll(chartFolder, latest, namespace).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// Helm asks the cluster for its version before it renders anything.
func TestTheChartGoesWhereTheReadmeSaysThatPlinthWorks(t *testing.T) {
	said := regexp.MustCompile(`older than (1\.\d+) cannot work`).FindStringSubmatch(text(t, "../../README.md"))
	if said == nil {
		t.Fatal("the README does not say any more which Kubernetes is too old: this test says nothing")
	}
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	least, _ := strings.CutPrefix(said[1], "1.")
	minor, err := strconv.Atoi(least)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]bool{
		fmt.Sprintf("v1.%d.9", minor-1): false, fmt.Sprintf("v1.%d.0", minor): true, fmt.Sprintf("v1.%d.4+k3s1", minor): true,
		fmt.Sprintf("v1.%d.0-gke.100", minor): true, "v1.37.1": true, "v1.40.0": true,
	} {
		if got := chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version); got != want {
			t.Errorf("Kubernetes %s: the chart's %q takes it: %v, want %v", version, chart.Metadata.KubeVersion, got, want)
		}
	}
}

func TestTheChartIsTheBase(t *testing.T) {
	chart, err := template(namespace, latest)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(objects(t, render(t, "base")), objects(t, chart)); d != "" {
		t.Errorf("deploy/base (-) and deploy/helm/plinth (+) differ:\n%s", d)
	}
}

func TestTheChartInANamespaceOfItsOwn(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	home, err := os.ReadFile("../../examples/homelab/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := template("plinth", values{
		"inventory":        values{"name": "home", "files": values{"inventory.yaml": string(home)}, "allowRemovals": 2},
		"controller":       values{"replicas": 1, "extraArgs": []any{"--load-balancer-class-only"}},
		"agent":            values{"passwordSecrets": []any{"bgp", "bgp-edge"}, "extraArgs": []any{"--log-level=debug"}, "nodeSelector": values{"plinth.dev/agent": "yes"}},
		"imagePullSecrets": []any{values{"name": "registry"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, s, "", "create", "namespace", "plinth")
	kubectl(t, s, chart, "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")

	all := objects(t, chart)
	for name, o := range all {
		outside := name == "RoleBinding plinth-cloud-controller-manager-auth" || strings.HasPrefix(name, "Cluster") ||
			strings.HasPrefix(name, "ValidatingAdmissionPolicy")
		if got := (&unstructured.Unstructured{Object: o}).GetNamespace(); !outside && got != "plinth" {
			t.Errorf("%s is in namespace %q", name, got)
		}
	}
	selector, _, _ := unstructured.NestedStringMap(all["DaemonSet plinth-agent"], "spec", "template", "spec", "nodeSelector")
	if want := map[string]string{"kubernetes.io/os": "linux", "plinth.dev/agent": "yes"}; !maps.Equal(selector, want) {
		t.Errorf("agents run on machines with the labels %v, want %v", selector, want)
	}
	inventory := &unstructured.Unstructured{Object: all["ConfigMap inventory"]}
	if text, _, _ := unstructured.NestedString(inventory.Object, "data", "inventory.yaml"); text != string(home) {
		t.Errorf("the inventory is not the file, but\n%s", text)
	}
	if got := inventory.GetLabels()["plinth.dev/inventory"]; got != "home" {
		t.Errorf("the inventory's label is %q", got)
	}
	if got := inventory.GetAnnotations()["plinth.dev/allow-removals"]; got != "2" {
		t.Errorf("the allowed removals are %q", got)
	}
}

func TestTheChartGivesARealTimeAgentItsCapability(t *testing.T) {
	chart, err := template(namespace, values{"agent": values{"realTime": true}})
	if err != nil {
		t.Fatal(err)
	}
	agent := objects(t, chart)["DaemonSet plinth-agent"]
	containers, _, err := unstructured.NestedSlice(agent, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatal(containers, err)
	}
	container, _ := containers[0].(map[string]any)
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	added, _, _ := unstructured.NestedStringSlice(container, "securityContext", "capabilities", "add")
	if !slices.Contains(args, "--real-time") || !slices.Equal(added, []string{"NET_ADMIN", "SYS_NICE"}) {
		t.Errorf("arguments %v, capabilities %v", args, added)
	}
}

func TestTheControllerGoesWhereItsValuesSay(t *testing.T) {
	chart, err := template(namespace, values{"controller": values{
		"nodeAffinity": nil, "nodeSelector": values{"plinth.dev/controller": "yes"}, "tolerations": []any{values{"key": "infra", "operator": "Exists"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(fields ...string) []string {
		return append([]string{"spec", "template", "spec"}, fields...)
	}
	controller := objects(t, chart)["Deployment plinth-cloud-controller-manager"]
	affinity, _, _ := unstructured.NestedMap(controller, pod("affinity")...)
	if affinity["nodeAffinity"] != nil || affinity["podAntiAffinity"] == nil {
		t.Errorf("affinity %v, want none to Nodes, and the controllers apart", affinity)
	}
	selector, _, _ := unstructured.NestedStringMap(controller, pod("nodeSelector")...)
	if want := map[string]string{"kubernetes.io/os": "linux", "plinth.dev/controller": "yes"}; !maps.Equal(selector, want) {
		t.Errorf("node selector %v, want %v", selector, want)
	}
	tolerations, _, _ := unstructured.NestedSlice(controller, pod("tolerations")...)
	if last, _ := tolerations[len(tolerations)-1].(map[string]any); len(tolerations) != 6 || last["key"] != "infra" {
		t.Errorf("tolerations %v", tolerations)
	}
}

func TestTheAgentsMetricsAreServedWhereTheValuesSay(t *testing.T) {
	chart, err := template(namespace, values{"agent": values{"metricsPort": 9268}})
	if err != nil {
		t.Fatal(err)
	}
	containers, _, err := unstructured.NestedSlice(objects(t, chart)["DaemonSet plinth-agent"], "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatal(containers, err)
	}
	container, _ := containers[0].(map[string]any)
	args, _, _ := unstructured.NestedStringSlice(container, "args")
	ports, _, _ := unstructured.NestedSlice(container, "ports")
	if !slices.Contains(args, "--metrics-listen=:9268") || len(ports) != 1 {
		t.Errorf("arguments %v, ports %v", args, ports)
	}
}

func TestTheChartRefusesValuesThatMakeNoSense(t *testing.T) {
	for name, v := range map[string]values{
		"a misspelt value":               {"controler": values{}},
		"no controller":                  {"controller": values{"replicas": 0}},
		"an inventory without a name":    {"inventory": values{"files": values{"inventory.yaml": "x"}}},
		"a file that would not be read":  {"inventory": values{"name": "home", "files": values{"inventory.txt": "x"}}},
		"no flag":                        {"agent": values{"extraArgs": []any{"log-level=debug"}}},
		"a digest that is none":          {"agent": values{"image": values{"digest": "sha256:12"}}},
		"a label that pods are found by": {"commonLabels": values{"app.kubernetes.io/name": "x"}},
		"a format of logs that is none":  {"controller": values{"logFormat": "xml"}},
		"a name that is none":            {"fullnameOverride": "Plinth!"},
		"nothing to scrape":              {"monitoring": values{"podMonitor": values{"enabled": true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := template(namespace, v); err == nil {
				t.Error("was taken")
			}
		})
	}
}

// template does what helm template does.
func template(namespace string, v values) (string, error) {
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		return "", err
	}
	return renderChart(chart, namespace, v)
}

func renderChart(chart *chartv2.Chart, namespace string, v values) (string, error) {
	all, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: "plinth", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return "", err
	}
	var manifest strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			manifest.WriteString("---\n" + files[name] + "\n")
		}
	}
	return manifest.String(), nil
}

// objects returns the objects of a manifest by kind and name.
func objects(t *testing.T, manifest string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all[o.GetKind()+" "+o.GetName()] = o.Object
		}
	}
}
