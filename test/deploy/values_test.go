package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"

	"plinth.dev/plinth/test/apiserver"
)

// everything sets each value of the chart: to something other than its default, but where that would leave objects out.
func everything(t *testing.T) values {
	t.Helper()
	home, err := os.ReadFile("../../examples/homelab/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	image := func(name string) values {
		return values{"repository": "registry.example.com/plinth/" + name, "tag": "v9.8.7", "digest": "sha256:" + strings.Repeat("0123456789abcdef", 4), "pullPolicy": "Always"}
	}
	workload := func(name string) values {
		return values{
			"image": image(name), "logFormat": "json",
			"extraEnv":          []any{values{"name": "HOST", "valueFrom": values{"fieldRef": values{"fieldPath": "status.hostIP"}}}, values{"name": "GOMEMLIMIT", "value": "400MiB"}},
			"extraVolumes":      []any{values{"name": "certs", "hostPath": values{"path": "/etc/ssl/certs"}}},
			"extraVolumeMounts": []any{values{"name": "certs", "mountPath": "/etc/ssl/certs", "readOnly": true}},
			"nodeSelector":      values{"plinth.dev/" + name: "yes"}, "tolerations": []any{values{"key": "infra", "operator": "Exists"}},
			"affinity":          values{"nodeAffinity": values{"preferredDuringSchedulingIgnoredDuringExecution": []any{values{"weight": 1, "preference": values{"matchExpressions": []any{values{"key": "fast", "operator": "Exists"}}}}}}},
			"priorityClassName": "first-" + name, "podAnnotations": values{"example.com/a": "b"}, "podLabels": values{"team": "net"},
			"serviceAccount": values{"create": true, "name": name + ".account", "annotations": values{"example.com/c": "d"}},
			"resources":      values{"requests": values{"cpu": "10m"}, "limits": values{"memory": "1Gi"}},
		}
	}
	controller, agent := workload("controller"), workload("agent")
	controller["extraArgs"], agent["extraArgs"] = []any{"--concurrent-service-syncs=32"}, []any{"--set-sysctls"}
	controller["replicas"], controller["nodeAffinity"] = 3, nil
	controller["updateStrategy"] = values{"rollingUpdate": values{"maxUnavailable": 2}}
	controller["podDisruptionBudget"] = values{"enabled": true, "maxUnavailable": "50%"}
	controller["loadBalancerClassOnly"], controller["logLevel"], controller["bindAddress"] = true, 4, "0.0.0.0"
	controller["leaseName"], controller["port"] = "metal", 10271
	agent["updateStrategy"] = values{"type": "RollingUpdate", "rollingUpdate": values{"maxUnavailable": 2}}
	agent["logLevel"], agent["metricsPort"], agent["realTime"], agent["onLink"], agent["passwordSecrets"] = "debug", 9268, true, true, []any{"bgp", "bgp-edge"}
	monitor := values{"enabled": true, "interval": "30s", "labels": values{"release": "prometheus"}}
	return values{
		"inventory":  values{"name": "home", "files": values{"inventory.yaml": string(home)}, "allowRemovals": 2, "validate": true},
		"controller": controller, "agent": agent,
		"admission": values{"denyExternalIPs": true}, "webhook": values{"enabled": true, "port": 10270},
		"monitoring":   values{"podMonitor": monitor, "serviceMonitor": monitor, "prometheusRule": values{"enabled": true, "labels": values{"release": "prometheus"}}, "dashboard": values{"enabled": true, "labels": values{"grafana": "yes"}}},
		"rbac":         values{"create": true},
		"commonLabels": values{"example.com/owner": "net"}, "nameOverride": "lb", "fullnameOverride": "metal", "imagePullSecrets": []any{values{"name": "registry"}},
	}
}

// leaves are the paths of all values of the chart. What a user gives whole, as Kubernetes has it, is one.
func leaves(path string, all values) (paths []string) {
	for name, value := range all {
		below, isMap := value.(map[string]any)
		if isMap && len(below) > 0 && !slices.Contains([]string{"nodeSelector", "nodeAffinity", "labels", "resources", "updateStrategy"}, name) {
			paths = append(paths, leaves(path+name+".", below)...)
		} else {
			paths = append(paths, path+name)
		}
	}
	return paths
}

// parent is the map that has the last name of a path.
func parent(t *testing.T, all values, path string) (in values, name string) {
	t.Helper()
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		below, ok := all[name].(map[string]any)
		if !ok {
			t.Fatalf("%s is not set", path)
		}
		all = below
	}
	return all, names[len(names)-1]
}

// TestEveryValueDoesSomething: with all values set, the manifest is another one as soon as one of them is what it is by
// default; or what it is not by default, where the default is what the test sets.
func TestEveryValueDoesSomething(t *testing.T) {
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	overruled := map[string]string{ // by another value
		"nameOverride": "fullnameOverride", "controller.image.tag": "controller.image.digest", "agent.image.tag": "agent.image.digest",
		"controller.nodeAffinity": "controller.affinity",
	}
	all := leaves("", chart.Values)
	for _, path := range all {
		render := func(change func(in values, name string, usual any)) string {
			v := everything(t)
			if by := overruled[path]; by != "" {
				in, name := parent(t, v, by)
				delete(in, name)
			}
			in, name := parent(t, v, path)
			usual, of := parent(t, chart.Values, path)
			if _, set := in[name]; !set {
				t.Fatalf("%s is not set", path)
			}
			change(in, name, usual[of])
			text, err := renderChart(chart, "plinth", v)
			if err != nil {
				return err.Error() // as good as another manifest
			}
			return text
		}
		set := render(func(values, string, any) {})
		other := render(func(in values, name string, usual any) {
			if isOn, isBool := in[name].(bool); isBool && usual == in[name] {
				in[name] = !isOn
				return
			}
			delete(in, name)
		})
		if set == other {
			t.Errorf("%s changes nothing", path)
		}
	}
	if len(all) < 50 {
		t.Errorf("the chart has %d values", len(all))
	}
}

// TestTheChartWithEveryValueSet holds what it makes against an API server, strictly; and what
// an API server of its own does not know, against nothing but its own form.
func TestTheChartWithEveryValueSet(t *testing.T) {
	manifest, err := template("plinth", everything(t))
	if err != nil {
		t.Fatal(err)
	}
	s := apiserver.Start(t, apiserver.Options{})
	kubectl(t, s, "", "create", "namespace", "plinth")
	var known strings.Builder
	operators := map[string]int{}
	for _, part := range strings.Split("\n"+manifest, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		switch {
		case len(o.Object) == 0:
		case strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/"):
			operators[o.GetKind()]++
		default:
			known.WriteString("---\n" + part + "\n")
		}
	}
	kubectl(t, s, known.String(), "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")
	if fmt.Sprint(operators) != "map[PodMonitor:2 PrometheusRule:1 ServiceMonitor:2]" {
		t.Errorf("for the Prometheus operator it makes %v", operators)
	}
	all := objects(t, manifest)
	for name, o := range all {
		if u := (&unstructured.Unstructured{Object: o}); u.GetLabels()["example.com/owner"] != "net" || u.GetLabels()["app.kubernetes.io/part-of"] != "plinth" {
			t.Errorf("%s has the labels %v", name, u.GetLabels())
		}
	}
	controller, agent := container(t, all["Deployment metal-cloud-controller-manager"]), container(t, all["DaemonSet metal-agent"])
	for _, c := range []struct {
		of   map[string]any
		want []string
	}{
		{controller, []string{"--bind-address=0.0.0.0", "--secure-port=10271", "--leader-elect-resource-name=metal", "--v=4", "--logging-format=json", "--load-balancer-class-only", "--inventory-webhook-address=:10270", "--concurrent-service-syncs=32"}},
		{agent, []string{"--log-level=debug", "--log-format=json", "--metrics-listen=:9268", "--real-time", "--set-sysctls"}},
	} {
		args, _, _ := unstructured.NestedStringSlice(c.of, "args")
		for _, want := range c.want {
			if !slices.Contains(args, want) {
				t.Errorf("%s: the arguments %v lack %s", c.of["name"], args, want)
			}
		}
		if image := c.of["image"].(string); !strings.Contains(image, "@sha256:") || strings.Contains(image, "v9.8.7") {
			t.Errorf("%s: the image is %s", c.of["name"], image)
		}
	}
	policy := fmt.Sprint(all["ValidatingAdmissionPolicy metal-agent"])
	if !strings.Contains(policy, "[^:]+:agent[.]account$") {
		t.Error("the policy does not bind the agents' account")
	}
}

// TestBothUpdateStrategiesThatRollNothingAreTaken: of a strategy that does not roll an API server refuses the chart's own
// rollingUpdate, which null takes away.
func TestBothUpdateStrategiesThatRollNothingAreTaken(t *testing.T) {
	manifest, err := template(namespace, values{
		"controller": values{"updateStrategy": values{"type": "Recreate", "rollingUpdate": nil}},
		"agent":      values{"updateStrategy": values{"type": "OnDelete", "rollingUpdate": nil}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, apiserver.Start(t, apiserver.Options{}), manifest, "apply", "--dry-run=server", "--server-side", "--validate=strict", "-f", "-")
	all := objects(t, manifest)
	for name, want := range map[string]string{"Deployment plinth-cloud-controller-manager strategy": "Recreate", "DaemonSet plinth-agent updateStrategy": "OnDelete"} {
		at := strings.LastIndex(name, " ")
		if got, _, _ := unstructured.NestedString(all[name[:at]], "spec", name[at+1:], "type"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func container(t *testing.T, workload map[string]any) map[string]any {
	t.Helper()
	all, _, err := unstructured.NestedSlice(workload, "spec", "template", "spec", "containers")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d containers, %v", len(all), err)
	}
	return all[0].(map[string]any)
}

// TestOfControllersThereAreNoMoreThanMachinesForThem renders as helm install does, with a cluster
// to ask.
func TestOfControllersThereAreNoMoreThanMachinesForThem(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{})
	replicas := func(v values) int {
		t.Helper()
		chart, err := loader.LoadDir(chartFolder)
		if err != nil {
			t.Fatal(err)
		}
		all, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: "plinth", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		files, err := engine.New(s.Config).Render(chart, all)
		if err != nil {
			t.Fatal(err)
		}
		n, _, err := unstructured.NestedFloat64(objects(t, files["plinth/templates/ccm.yaml"])["Deployment plinth-cloud-controller-manager"], "spec", "replicas")
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	add := func(name string, labels map[string]string) {
		t.Helper()
		if _, err := s.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hosted := values{"controller": values{"nodeAffinity": nil}}
	controlPlane := map[string]string{"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"}
	add("nuc1", controlPlane)
	add("nuc2", map[string]string{"kubernetes.io/os": "linux"})
	if n := replicas(nil); n != 1 {
		t.Errorf("%d controllers on one machine of the control plane", n)
	}
	if n := replicas(hosted); n != 2 {
		t.Errorf("%d controllers on two machines, whichever they are", n)
	}
	if n := replicas(values{"controller": values{"nodeAffinity": nil, "nodeSelector": values{"example.com/for": "controllers"}}}); n != 2 {
		t.Errorf("%d controllers where no machine is selected yet", n)
	}
	add("nuc9", map[string]string{"example.com/for": "controllers", "kubernetes.io/os": "linux"})
	if n := replicas(values{"controller": values{"nodeAffinity": nil, "nodeSelector": values{"example.com/for": "controllers"}}}); n != 1 {
		t.Errorf("%d controllers where one machine is selected", n)
	}
	if n := replicas(values{"controller": values{"replicas": 3}}); n != 3 {
		t.Errorf("%d controllers where three are asked for", n)
	}
	add("nuc3", controlPlane)
	if n := replicas(nil); n != 2 {
		t.Errorf("%d controllers on two machines of the control plane", n)
	}
}

// TestAnInvalidInventoryEndsAnInstallation runs the command of the Job that Helm waits for before
// it installs anything, on the files of the ConfigMap that the Job mounts.
func TestAnInvalidInventoryEndsAnInstallation(t *testing.T) {
	home, err := os.ReadFile("../../examples/homelab/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	program := built(t, "cloud-controller-manager")
	for _, c := range []struct {
		name, text, want string
		code             int
	}{
		{"as it should be", string(home), "valid: inventory home", 0},
		{"with a typo", strings.Replace(string(home), "machines:", "machnes:", 1), "inventory.yaml:", 1},
	} {
		manifest, err := template(namespace, values{"inventory": values{"name": "home", "files": values{"inventory.yaml": c.text}}})
		if err != nil {
			t.Fatal(err)
		}
		all := objects(t, manifest)
		job := &unstructured.Unstructured{Object: all["Job plinth-inventory-check"]}
		if hook := job.GetAnnotations()["helm.sh/hook"]; hook != "pre-install,pre-upgrade" {
			t.Errorf("the Job's hook is %q", hook)
		}
		files, _, _ := unstructured.NestedStringMap(all["ConfigMap plinth-inventory-check"], "data")
		folder := t.TempDir()
		for name, text := range files {
			put(t, filepath.Join(folder, name), []byte(text))
		}
		args, _, _ := unstructured.NestedStringSlice(container(t, job.Object), "args")
		check := exec.Command(program, slices.Concat(args[:1], []string{folder})...)
		out, _ := check.CombinedOutput()
		if check.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || args[1] != "/inventory" {
			t.Errorf("%s: %v ends with %d and says\n%s", c.name, args, check.ProcessState.ExitCode(), out)
		}
	}
	if manifest, err := template(namespace, values{"inventory": values{"name": "home", "files": values{"inventory.yaml": "x"}, "validate": false}}); err != nil || strings.Contains(manifest, "kind: Job") {
		t.Errorf("the Job is there although nobody wants it (%v)", err)
	}
}
