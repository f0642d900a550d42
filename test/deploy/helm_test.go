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
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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

// TestTheInventoryIsCheckedWhereTheControllerMayRun: a Job that waits on a Node that is dead or cordoned ends an upgrade
// by its deadline, just when it is to write `state: off` for that machine.
func TestTheInventoryIsCheckedWhereTheControllerMayRun(t *testing.T) {
	inventory := values{"name": "home", "files": values{"inventory.yaml": "x"}}
	pods := func(controller values) (check, manager v1.PodSpec) {
		manifest, err := template(namespace, values{"inventory": inventory, "controller": controller})
		if err != nil {
			t.Fatal(err)
		}
		all := objects(t, manifest)
		return podOf(t, all["Job plinth-inventory-check"]), podOf(t, all["Deployment plinth-cloud-controller-manager"])
	}
	apart := values{"podAntiAffinity": values{"requiredDuringSchedulingIgnoredDuringExecution": []any{values{"topologyKey": "zone"}}}}
	own := values{"nodeAffinity": values{"requiredDuringSchedulingIgnoredDuringExecution": values{"nodeSelectorTerms": []any{
		values{"matchExpressions": []any{values{"key": "infra", "operator": "Exists"}}},
	}}}}
	for name, controller := range map[string]values{
		"as is":                          {},
		"no control plane in cluster":    {"nodeAffinity": nil},
		"a node selector":                {"nodeSelector": values{"plinth.dev/controller": "yes"}},
		"an affinity of its own":         {"affinity": own},
		"an affinity of pods alone":      {"affinity": apart},
		"a toleration of its own":        {"tolerations": []any{values{"key": "infra", "operator": "Exists"}}},
		"a toleration of everything":     {"tolerations": []any{values{"key": nil, "operator": "Exists"}, values{"operator": "Exists"}, values{"operator": "Exists", "effect": "NoSchedule"}}},
		"a toleration of dead Nodes":     {"tolerations": []any{values{"key": v1.TaintNodeUnreachable, "operator": "Exists"}}},
		"a toleration of cordoned Nodes": {"tolerations": []any{values{"key": v1.TaintNodeUnschedulable, "operator": "Exists", "effect": "NoSchedule"}}},
	} {
		t.Run(name, func(t *testing.T) {
			check, manager := pods(controller)
			if !maps.Equal(check.NodeSelector, manager.NodeSelector) {
				t.Errorf("node selector %v, want the controller's %v", check.NodeSelector, manager.NodeSelector)
			}
			var have v1.Affinity
			if check.Affinity != nil {
				have = *check.Affinity
			}
			// The rule that no two controllers run on one machine would keep it from the only one of a control plane.
			if d := cmp.Diff(v1.Affinity{NodeAffinity: manager.Affinity.NodeAffinity}, have); d != "" {
				t.Errorf("the controller's affinity to Nodes (-) and the Job's affinity (+) differ:\n%s", d)
			}
			fresh := []v1.Taint{
				{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule},
				{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule},
				{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}, {Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute},
				{Key: v1.TaintNodeNetworkUnavailable, Effect: v1.TaintEffectNoSchedule},
			}
			if name == "a toleration of its own" {
				fresh = append(fresh, v1.Taint{Key: "infra", Effect: v1.TaintEffectNoSchedule})
			}
			for _, taint := range fresh {
				if !tolerates(check, taint) {
					t.Errorf("%v keeps it from a fresh cluster", taint)
				}
			}
			for _, taint := range []v1.Taint{
				{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoSchedule}, {Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute},
				{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}, {Key: "dedicated", Value: "gpu", Effect: v1.TaintEffectNoSchedule},
			} {
				if tolerates(check, taint) {
					t.Errorf("it goes to a Node with %v", taint)
				}
			}
		})
	}
}

func podOf(t *testing.T, o map[string]any) v1.PodSpec {
	t.Helper()
	spec, _, err := unstructured.NestedMap(o, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	var pod v1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func tolerates(pod v1.PodSpec, taint v1.Taint) bool {
	return slices.ContainsFunc(pod.Tolerations, func(t v1.Toleration) bool {
		return (t.Key == "" || t.Key == taint.Key) && (t.Effect == "" || t.Effect == taint.Effect) &&
			(t.Operator == v1.TolerationOpExists || t.Value == taint.Value)
	})
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
		"a misspelt value":                                   {"controler": values{}},
		"no controller":                                      {"controller": values{"replicas": 0}},
		"an inventory without a name":                        {"inventory": values{"files": values{"inventory.yaml": "x"}}},
		"a file that would not be read":                      {"inventory": values{"name": "home", "files": values{"inventory.txt": "x"}}},
		"no flag":                                            {"agent": values{"extraArgs": []any{"log-level=debug"}}},
		"a digest that is none":                              {"agent": values{"image": values{"digest": "sha256:12"}}},
		"a label that pods are found by":                     {"commonLabels": values{"app.kubernetes.io/name": "x"}},
		"a format of logs that is none":                      {"controller": values{"logFormat": "xml"}},
		"a name that is none":                                {"fullnameOverride": "Plinth!"},
		"the controller's own port for its webhook":          {"webhook": values{"enabled": true, "port": 10258}},
		"the agents' port for the webhook":                   {"webhook": values{"enabled": true, "port": 10268}},
		"the controller's port for the agents' metrics":      {"agent": values{"metricsPort": 10258}},
		"the agents' own port for their metrics":             {"agent": values{"metricsPort": 10268}},
		"the webhook's port for the agents' metrics":         {"agent": values{"metricsPort": 10269}, "webhook": values{"enabled": true}},
		"one port for both":                                  {"agent": values{"metricsPort": 9268}, "webhook": values{"enabled": true, "port": 9268}},
		"the agents' port for the controller":                {"controller": values{"port": 10268}},
		"another port of the controller for its webhook":     {"controller": values{"port": 10270}, "webhook": values{"enabled": true, "port": 10270}},
		"the usual port of the webhook for the controller":   {"controller": values{"port": 10269}, "webhook": values{"enabled": true}},
		"another port of the controller for agents' metrics": {"controller": values{"port": 9268}, "agent": values{"metricsPort": 9268}},
		"no port":                          {"controller": values{"port": 0}},
		"no name of the lease":             {"controller": values{"leaseName": ""}},
		"a name of the lease that is none": {"controller": values{"leaseName": "Plinth!"}},
		"nothing to scrape":                {"monitoring": values{"podMonitor": values{"enabled": true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := template(namespace, v); err == nil {
				t.Error("was taken")
			}
		})
	}
}

func TestTheWebhooksPortIsFreeForTheAgentsMetricsWhereThereIsNoWebhook(t *testing.T) {
	if _, err := template(namespace, values{"agent": values{"metricsPort": 10269}}); err != nil {
		t.Error(err)
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
