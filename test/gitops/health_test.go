package gitops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/yaml"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/wait"
)

const (
	folder    = "../../deploy/gitops/"
	namespace = "plinth-system"
	good      = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
  pools: [{name: default, addresses: [192.168.50.0/26]}]
`
)

// edits hands out one after another, each when the test says.
type edits chan string

func (e edits) Run(ctx context.Context, set func(source.Edit)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case text := <-e:
			set(source.ReadText("home.yaml", []byte(text)))
		}
	}
}

// statuses are what the controller itself writes in each state that there is.
func statuses(t *testing.T) map[string]*v1.ConfigMap {
	t.Helper()
	client, hand := fake.NewClientset(), edits(make(chan string))
	refuseSlices := false
	client.PrependReactor("create", "configmaps", func(a k8stesting.Action) (bool, runtime.Object, error) {
		name := a.(k8stesting.CreateAction).GetObject().(*v1.ConfigMap).Name
		return refuseSlices && strings.HasPrefix(name, source.AcceptedName), nil, errors.New("etcdserver: no space")
	})
	r := source.NewReconciler(source.Config{
		Client: client, Namespace: namespace, Source: hand, Recorder: record.NewFakeRecorder(100), Log: slog.New(slog.DiscardHandler), Metrics: source.NewMetrics(),
		Enforce: func(*inventory.Inventory) {},
		Agents: func(context.Context) (map[string]edit.Agent, error) {
			return map[string]edit.Agent{"nuc1": {Node: "nuc1", Up: true}}, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	all := map[string]*v1.ConfigMap{}
	state := func(name, text string, reached func(map[string]string) bool) {
		hand <- text
		all[name] = await(t, client, name, reached)
	}
	state("refused, and none in force", strings.Replace(good, "asn: 64514", "asn: x", 1), func(d map[string]string) bool {
		return d["generation"] == "0" && strings.Contains(d["problems"], "P0306")
	})
	state("in force", good, func(d map[string]string) bool { return d["ready"] == "true" })
	state("refused", strings.Replace(good, "machines:", "machine:", 1), func(d map[string]string) bool { return strings.Contains(d["problems"], "P0201") })
	state("on trial", strings.Replace(good, "asn: 64513", "asn: 64512", 1), func(d map[string]string) bool { return d["trial"] != "" })
	state("put back", good, func(d map[string]string) bool { return d["ready"] == "true" && d["trial"] == "" })
	refuseSlices = true
	state("not stored", strings.Replace(good, "racks: [", "racks: [{name: r2}, ", 1), func(d map[string]string) bool { return strings.Contains(d["problems"], "no space") })
	return all
}

// await returns the status once it is as it should be.
func await(t *testing.T, client *fake.Clientset, name string, reached func(map[string]string) bool) *v1.ConfigMap {
	t.Helper()
	var status *v1.ConfigMap
	wait.True(t, time.Minute, 5*time.Millisecond, name, func() (bool, string) {
		var err error
		status, err = client.CoreV1().ConfigMaps(namespace).Get(t.Context(), source.StatusName, metav1.GetOptions{})
		return err == nil && reached(status.Data), fmt.Sprintf("the status is %v (%v)", status, err)
	})
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	return status
}

// object is a ConfigMap as the tools read it.
func object(t *testing.T, cm *v1.ConfigMap) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(cm)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(folder + file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// luaValue is JSON as Lua has it.
func luaValue(v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := &lua.LTable{Metatable: lua.LNil}
		for key, value := range v {
			table.RawSetString(key, luaValue(value))
		}
		return table
	case string:
		return lua.LString(v)
	}
	return lua.LNil
}

// argo is the health that Argo CD finds: it runs the script with the object as obj.
func argo(t *testing.T, script string, cm *v1.ConfigMap) (status, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	l.SetGlobal("obj", luaValue(object(t, cm)))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", l.Get(-1))
	}
	return lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))
}

// flux is whether Flux takes an object for ready: an expression that fails is one that does not hold.
func flux(t *testing.T, expression string, cm *v1.ConfigMap) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(parsed)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(object(t, cm))
	return err == nil && value.Value() == true
}

// The health of a status is what it says, in both tools; no other ConfigMap has any.
func TestTheHealthIsThatOfTheInventory(t *testing.T) {
	var config v1.ConfigMap
	read(t, "argocd-cm.yaml", &config)
	script := config.Data["resource.customizations.health.ConfigMap"]
	var kustomization struct {
		APIVersion, Kind string
		Metadata         metav1.ObjectMeta
		Spec             struct {
			Interval, Timeout, Path string
			Prune                   bool
			SourceRef               struct{ Kind, Name string }
			HealthChecks            []struct{ APIVersion, Kind, Name, Namespace string }
			HealthCheckExprs        []struct{ APIVersion, Kind, Current string }
		}
	}
	read(t, "flux-kustomization.yaml", &kustomization)
	if checks := kustomization.Spec.HealthChecks; len(checks) != 1 || checks[0].Name != source.StatusName || len(kustomization.Spec.HealthCheckExprs) != 1 {
		t.Fatalf("%+v", kustomization.Spec)
	}
	expression := kustomization.Spec.HealthCheckExprs[0].Current

	all := statuses(t)
	var shipped, other v1.ConfigMap
	read(t, "plinth-inventory-status.yaml", &shipped)
	if shipped.Name != source.StatusName || shipped.Data != nil {
		t.Errorf("%+v", shipped)
	}
	all["nothing written yet"] = &shipped
	other.Name = "coredns"
	all["another ConfigMap"] = &other
	for name, want := range map[string]struct {
		status, message string
		ready           bool
	}{
		"nothing written yet":        {"Progressing", "has not looked", false},
		"refused, and none in force": {"Degraded", "home.yaml:5:14: error[P0306]", false},
		"in force":                   {"Healthy", "generation 1 is in force", true},
		"refused":                    {"Degraded", `did you mean "machines"?`, false},
		"on trial":                   {"Progressing", "nuc1 gateway", false},
		"put back":                   {"Healthy", "generation 1 is in force", true},
		"not stored":                 {"Degraded", "no space", false},
		"another ConfigMap":          {"Healthy", "", true},
	} {
		status, message := argo(t, script, all[name])
		if status != want.status || !strings.Contains(message, want.message) {
			t.Errorf("%s: Argo CD says %s: %s", name, status, message)
		}
		if ready := flux(t, expression, all[name]); ready != want.ready {
			t.Errorf("%s: Flux takes it for ready: %v", name, ready)
		}
	}
}
