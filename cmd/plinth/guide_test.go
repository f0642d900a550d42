package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
)

const gitGuide = "../../docs/guides/inventory-in-git.md"

// inForceOf are the ConfigMaps by which an inventory is in force.
func inForceOf(inv *inventory.Inventory) *v1.ConfigMapList {
	one := func(name string, part *inventory.Inventory) v1.ConfigMap {
		return v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system", Labels: map[string]string{"plinth.dev/accepted": inv.Name}, Annotations: map[string]string{"plinth.dev/generation": "1"}},
			Data:       map[string]string{"inventory.yaml": string(document.FormatAccepted(part))},
		}
	}
	common, racks := one("plinth-accepted", inv.Common()), ""
	out := &v1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}}
	for _, rack := range inv.Racks {
		racks += rack.Name + " 1\n"
		out.Items = append(out.Items, one("plinth-accepted-"+rack.Name, inv.Slice(rack.Name)))
	}
	common.Data["racks"] = racks
	out.Items = append(out.Items, common)
	return out
}

// clusterWith answers as an API server does that has an inventory in force, and lets nobody see
// Services; KUBECONFIG says how to reach it.
func clusterWith(t *testing.T, inv *inventory.Inventory) { clusterThatHas(t, inv, nil) }

// clusterThatHas is clusterWith, with lists of objects by the path that they are asked at.
func clusterThatHas(t *testing.T, inv *inventory.Inventory, lists map[string]any) {
	t.Helper()
	inForce := inForceOf(inv)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := lists[r.URL.Path]
		if r.URL.Path == "/api/v1/namespaces/kube-system/configmaps" && strings.HasPrefix(r.URL.Query().Get("labelSelector"), "plinth.dev/accepted") {
			answer, known = inForce, true
		}
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}", server.URL)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// rendered is the ConfigMap that kustomize generates in a folder. What the true one makes of
// it, test/deploy looks at.
func rendered(t *testing.T, folder string) []byte {
	t.Helper()
	var k struct {
		Namespace string
		Generator []struct {
			Name    string
			Files   []string
			Options struct{ Labels map[string]string }
		} `yaml:"configMapGenerator"`
	}
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &k)
	}
	if err != nil || len(k.Generator) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	g := k.Generator[0]
	data := map[string]string{}
	for _, file := range g.Files {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		data[file] = string(text)
	}
	out, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": map[string]any{"name": g.Name, "namespace": k.Namespace, "labels": g.Options.Labels}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// guidesFolder makes the layout of the guide, of an example's files and with the guide's own
// kustomization, and goes there.
func guidesFolder(t *testing.T, guide string) {
	t.Helper()
	kustomization := regexp.MustCompile("(?s)```yaml\n(apiVersion: kustomize.*?)```").FindStringSubmatch(guide)
	if kustomization == nil {
		t.Fatal("the guide has no kustomization any more: this test says nothing")
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "inventory"), os.DirFS(filepath.Join(examples, "two-rack"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "inventory", "kustomization.yaml"), []byte(kustomization[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}

// guideCommand finds the commands of a guide that read an inventory, with what is piped into them.
var guideCommand = regexp.MustCompile("(kubectl kustomize inventory/ \\| )?plinth ([a-z-]+ [^`|>\n]*)")

// commandsIn lists them, without those that only a sentence mentions.
func commandsIn(guide string) (out []string) {
	for _, m := range guideCommand.FindAllStringSubmatch(guide, -1) {
		words := strings.Fields(m[2])
		if slices.Contains([]string{"-", "inventory", "inventory/"}, words[len(words)-1]) {
			out = append(out, m[1]+strings.Join(words, " "))
		}
	}
	slices.Sort(out)
	return out
}

// Each command of the guide is run on the guide's own layout.
func TestTheCommandsOfTheGuideOfGitWork(t *testing.T) {
	text, err := os.ReadFile(gitGuide)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{
		"validate -o github inventory/":                  "",
		"diff -o markdown /tmp/main/inventory inventory": "## What changes\n\nNothing.",
		"diff cluster inventory/":                        "nothing changes",
		"explain machine/NAME inventory/":                "inventory/rack-r01.yaml:",
		"kubectl kustomize inventory/ | validate -":      "valid: inventory dc1 with 2 racks",
		"kubectl kustomize inventory/ | diff cluster -":  "nothing changes",
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(answers)), commandsIn(string(text))); d != "" {
		t.Fatalf("the guide has other commands than this test knows the answers of:\n%s", d)
	}
	guidesFolder(t, string(text))
	proposed, err := source.Read("inventory")
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := loaded(proposed)
	if inv == nil {
		t.Fatal(problems)
	}
	clusterWith(t, inv)
	words := strings.NewReplacer("/tmp/main/inventory", "inventory", "NAME", inv.Racks[0].Machines[0].Name)
	for command, want := range answers {
		t.Run(command, func(t *testing.T) {
			args, piped := strings.CutPrefix(command, "kubectl kustomize inventory/ | ")
			var in []byte
			if piped {
				in = rendered(t, "inventory")
			}
			answered(t, strings.Fields(words.Replace(args)), in, want)
		})
	}
}

// answered runs plinth, which is to end well and to print what is wanted.
func answered(t *testing.T, args []string, in []byte, want string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, bytes.NewReader(in), &out, &errs); code != exitGood || !strings.Contains(out.String(), want) {
		t.Errorf("plinth %v ends with %d and prints\n%s%s", args, code, &out, &errs)
	}
}

// What is in force in a cluster is an inventory like any other, to every command.
func TestEveryCommandReadsWhatIsInForce(t *testing.T) {
	proposed, err := source.Read(filepath.Join(examples, "two-rack"))
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := loaded(proposed)
	if inv == nil {
		t.Fatal(problems)
	}
	clusterWith(t, inv)
	for command, want := range map[string]string{
		"validate cluster":                "valid: inventory dc1 with 2 racks",
		"diff cluster cluster":            "nothing changes",
		"router-config tor-r01 cluster":   "router bgp ",
		"explain machine/r01-m01 cluster": "plinth://",
	} {
		t.Run(command, func(t *testing.T) {
			answered(t, strings.Fields(strings.Replace(command, "r01-m01", inv.Racks[0].Machines[0].Name, 1)), nil, want)
		})
	}
}
