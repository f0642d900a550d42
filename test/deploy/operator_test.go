package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// TestTheOperatorKnowsAllThatTheChartMakesForIt: an API server drops a field that the resource
// definitions of the Prometheus operator do not have, and an alert or a label is then missing
// without a word.
func TestTheOperatorKnowsAllThatTheChartMakesForIt(t *testing.T) {
	on := values{"enabled": true}
	for name, v := range map[string]values{
		"every value set": everything(t),
		"defaults":        {"agent": values{"metricsPort": 9268}, "monitoring": values{"podMonitor": on, "serviceMonitor": on, "prometheusRule": on}},
	} {
		t.Run(name, func(t *testing.T) {
			manifest, err := template("plinth", v)
			if err != nil {
				t.Fatal(err)
			}
			decoded := map[string]int{}
			for object, content := range objects(t, manifest) {
				u := unstructured.Unstructured{Object: content}
				if !strings.HasPrefix(u.GetAPIVersion(), "monitoring.coreos.com/") {
					continue
				}
				if err := decodeForOperator(t, content); err != nil {
					t.Errorf("%s: %v", object, err)
				}
				decoded[u.GetKind()]++
			}
			for _, kind := range []string{"PodMonitor", "PrometheusRule", "ServiceMonitor"} {
				if decoded[kind] == 0 {
					t.Errorf("no %s among %v", kind, slices.Sorted(maps.Keys(decoded)))
				}
			}
		})
	}
}

func TestAFieldThatTheOperatorDoesNotKnowIsFound(t *testing.T) {
	for _, c := range []struct{ name, object, want string }{
		{"a field that there is", "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nspec: {podMetricsEndpoints: [{relabelings: [{targetLabel: node}]}]}", ""},
		{"one of another case", "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nspec: {podMetricsEndpoints: [{relabelings: [{targetlabel: node}]}]}", `unknown field "spec.podMetricsEndpoints[0].relabelings[0].targetlabel"`},
		{"one of another kind", "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {podMetricsEndpoints: []}", `unknown field "spec.podMetricsEndpoints"`},
		{"one of no alert", "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nspec: {groups: [{name: a, rules: [{alert: A, expr: up, severity: x}]}]}", `unknown field "spec.groups[0].rules[0].severity"`},
		{"a kind that there is not", "apiVersion: monitoring.coreos.com/v1\nkind: AgentMonitor\nspec: {}", `no kind "AgentMonitor"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(c.object), &object); err != nil {
				t.Fatal(err)
			}
			err := decodeForOperator(t, object)
			if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("the answer is %v, want %q", err, c.want)
			}
		})
	}
}

// decodeForOperator decodes an object into the operator's own type, as strictly as an API server
// with --validate=strict. It does not hold values against the patterns and enumerations of the
// resource definitions, which the types have as comments alone.
func decodeForOperator(t *testing.T, object map[string]any) error {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := monitoringv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	text, err := (&unstructured.Unstructured{Object: object}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	_, _, err = strict.Decode(text, nil, nil)
	return err
}
