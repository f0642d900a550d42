package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// examined answers as an API server does that has nothing but some Nodes, and refuses some paths; KUBECONFIG says how to reach it.
func examined(t *testing.T, nodes []v1.Node, forbidden ...string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, path := range forbidden {
			if strings.HasSuffix(r.URL.Path, path) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"jane cannot list %s","code":403}`, path)
				return
			}
		}
		switch r.URL.Path {
		case "/version":
			_, _ = fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.2"}`)
		case "/apis", "/api":
			_, _ = fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1/nodes":
			_ = json.NewEncoder(w).Encode(v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: nodes})
		case "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases":
			_, _ = fmt.Fprintf(w, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":[{"metadata":{"name":"w1","namespace":"kube-node-lease"},"spec":{"renewTime":%q}}]}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", server.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

func examinedNode(taints ...string) v1.Node {
	n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: v1.NodeSpec{ProviderID: "plinth://w1"}}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
	}
	return n
}

func consult(in string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(append([]string{"doctor"}, args...), strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

func TestDoctorEndsByWhatItFound(t *testing.T) {
	const shutdown = "node.cloudprovider.kubernetes.io/shutdown"
	for _, c := range []struct {
		name      string
		nodes     []v1.Node
		forbidden []string
		code      int
		want      []string
	}{
		{"all is well", []v1.Node{examinedNode()}, nil, 0, []string{"Nothing stands in the way.\n"}},
		{"a taint", []v1.Node{examinedNode(shutdown)}, nil, 1, []string{"node w1: NodeShutdownTaint: ", "\n  kubectl taint node w1 " + shutdown + "-\n"}},
		{"not all may be read", []v1.Node{examinedNode()}, []string{"/services"}, 2, []string{"in what could be looked at", "Not known: Services: ", "jane cannot list /services"}},
		{"not even the inventory", []v1.Node{examinedNode(shutdown)}, []string{"/namespaces/kube-system/configmaps", "/leases"}, 1, []string{"NodeShutdownTaint", "Not known: leases of kubelets", "Not known: the inventory that is in force"}},
	} {
		examined(t, c.nodes, c.forbidden...)
		code, out, errs := consult("")
		if code != c.code || errs != "" {
			t.Errorf("%s: it ends with %d, not %d: %s\n%s", c.name, code, c.code, errs, out)
		}
		for _, part := range c.want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: it does not say %q:\n%s", c.name, part, out)
			}
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if code, out, errs := consult(""); code != 2 || errs == "" || out != "" {
		t.Errorf("without a cluster it ends with %d: %s\n%s", code, errs, out)
	}
}

func TestDoctorFindsTheSameInABundle(t *testing.T) {
	examined(t, []v1.Node{examinedNode("node.cloudprovider.kubernetes.io/shutdown")}, "/services")
	file := filepath.Join(t.TempDir(), "bundle.yaml")
	_, want, _ := consult("", "--save-bundle", file)
	_, text, _ := consult("", "--save-bundle", "-")
	t.Setenv("KUBECONFIG", "nowhere")
	if code, out, errs := consult("", "--bundle", file); code != 1 || out != want || errs != "" {
		t.Errorf("of the file it ends with %d: %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if code, out, errs := consult(text, "--bundle", "-"); code != 1 || out != want || errs != "" {
		t.Errorf("of the standard input it ends with %d: %s\n%s\nwant\n%s", code, errs, out, want)
	}
	var said struct {
		Findings []struct{ Kind, Object string }
		Unread   []string
	}
	if _, out, _ := consult(text, "--bundle", "-", "-o", "json"); json.Unmarshal([]byte(out), &said) != nil || len(said.Findings) != 1 || said.Findings[0].Kind != "NodeShutdownTaint" || len(said.Unread) != 1 {
		t.Errorf("%+v\n%s", said, out)
	}
	for want, args := range map[string][]string{"no bundle": {"--bundle", "-"}, "want no PATH": {"--bundle", "-", "inventory.yaml"}, "want text, json or yaml": {"-o", "wide"}} {
		if code, _, errs := consult("kind: x", args...); code < 2 || !strings.Contains(errs, want) {
			t.Errorf("%v ends with %d: %s", args, code, errs)
		}
	}
}

func TestDoctorPrintsNothingThatMovesACursor(t *testing.T) {
	examined(t, []v1.Node{examinedNode()})
	_, text, _ := consult("", "--save-bundle", "-")
	hostile := strings.Replace(text, "name: w1", `excluded: true
    name: "w1\e[2J;reboot"`, 1)
	if code, out, errs := consult(hostile, "--bundle", "-"); code != 1 || strings.ContainsAny(out, "\x1b\u009b") || !strings.Contains(out, "label node 'w1\ufffd[2J;reboot' ") {
		t.Errorf("it ends with %d: %s\n%q", code, errs, out)
	}
}
