//go:build samples

package importer

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// moduleOf is the folder of a module that testdata/samples/go.mod names. It is downloaded where it is missing.
func moduleOf(t *testing.T, module string) string {
	t.Helper()
	pins, err := os.ReadFile("testdata/samples/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	pin := regexp.MustCompile(regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(pins)
	if pin == nil {
		t.Fatalf("testdata/samples/go.mod does not have %s", module)
	}
	cmd := exec.Command("go", "-C", "testdata/samples", "mod", "download", "-json", module+"@"+string(pin[1]))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	return found.Dir
}

// anyObject fits what is an object of Kubernetes.
var anyObject = having("apiVersion: ")

// TestTheLawHoldsForAllThatCiliumShips tries each document by itself, and those of a folder, page or archive together, as people apply them.
func TestTheLawHoldsForAllThatCiliumShips(t *testing.T) {
	docs := samplesBelow(t, moduleOf(t, "github.com/cilium/cilium"), having("apiVersion: "+cilium+"/"))
	lawOver(t, "cilium", 80, docs)
	lawOver(t, "cilium", 20, together(docs))
}

func TestTheLawHoldsForAllThatKubeVIPShips(t *testing.T) {
	for _, of := range []struct {
		module string
		least  int
	}{{"github.com/kube-vip/kube-vip-cloud-provider", 5}, {"github.com/kube-vip/kube-vip", 5}} {
		docs := samplesBelow(t, moduleOf(t, of.module), anyObject)
		lawOver(t, "kube-vip", of.least, docs)
		lawOver(t, "kube-vip", 1, together(docs))
	}
}

// TestTheLawHoldsForServicesAndProgramsOfOthers tries what is nobody's, for the sources that look at every Service and program of a cluster.
func TestTheLawHoldsForServicesAndProgramsOfOthers(t *testing.T) {
	kinds := regexp.MustCompile(`(?m)^kind: (Service|DaemonSet|Deployment|Pod|ConfigMap|Node)$`)
	docs := samplesBelow(t, moduleOf(t, "github.com/cilium/cilium"), kinds.MatchString)
	for _, source := range []string{"servicelb", "kube-vip", "nodes"} {
		lawOver(t, source, 1, docs)
	}
}

// allModules are those whose documents have goldens.
var allModules = shipped{
	"go.universe.tf/metallb": metalLBSamples,
	"k8s.io/api":             kubernetesSamples,
	"github.com/cilium/cilium": func(t *testing.T) []document.Document {
		kinds := regexp.MustCompile(`(?m)apiVersion: cilium\.io/|^ *kind: (Service|DaemonSet|Deployment|Pod|ConfigMap|Node)$`)
		return samplesBelow(t, moduleOf(t, "github.com/cilium/cilium"), kinds.MatchString)
	},
	"github.com/kube-vip/kube-vip": func(t *testing.T) []document.Document {
		return samplesBelow(t, moduleOf(t, "github.com/kube-vip/kube-vip"), anyObject)
	},
	"github.com/kube-vip/kube-vip-cloud-provider": func(t *testing.T) []document.Document {
		return samplesBelow(t, moduleOf(t, "github.com/kube-vip/kube-vip-cloud-provider"), anyObject)
	},
}

// TestSixtyDocumentsHaveGoldens of each source that projects ship documents of, of each kind that it reads, and of several sources together.
func TestSixtyDocumentsHaveGoldens(t *testing.T) {
	read, goldens := checkSampleGoldens(t, allModules)
	if t.Logf("%d goldens of %d documents", len(goldens), len(read)); len(goldens) < 60 || len(goldens) != len(sampleGoldens(t)) {
		t.Errorf("%d of %d goldens were read", len(goldens), len(sampleGoldens(t)))
	}
	have, joined := map[string]bool{}, 0
	for i, docs := 0, read; i < len(goldens); i++ {
		g := goldens[i]
		maps.Copy(have, kindsWithGoldens(docs[:len(g.names)], g.options.Sources))
		if docs = docs[len(g.names):]; len(g.options.Sources) > 1 {
			joined++
		}
	}
	if joined < 6 {
		t.Errorf("%d goldens are of several sources", joined)
	}
	for _, source := range Sources() {
		for _, kind := range KindsOf(source) {
			if want := source + " reads " + kind.Kind; !have[want] {
				t.Errorf("no golden: %s", want)
			}
		}
	}
}

// TestEachFlagOfKubeVIPIsKnown reads them, and whether they take a value, out of its command, and its variables out of the names that it looks up.
func TestEachFlagOfKubeVIPIsKnown(t *testing.T) {
	dir := moduleOf(t, "github.com/kube-vip/kube-vip")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:kubeVipCmd\.Persistent|kubeVipService\.)Flags\(\)\.(\w+?)Var(P?)\([^,]+, "([^"]+)"(?:, "(\w)")?`).FindAllStringSubmatch(read("cmd/kube-vip.go"), -1) {
		for _, name := range []string{m[3], m[4]} {
			if name == "" {
				continue
			}
			found[name] = true
			if flag, known := kubeVIPFlags[name]; !known || flag.isBool != (m[1] == "Bool") {
				t.Errorf("--%s (%s) is not in the table, or takes its value otherwise", name, m[1])
			}
		}
	}
	variables := regexp.MustCompile(`= "(\w+)"`).FindAllStringSubmatch(read("pkg/kubevip/config_envvar.go"), -1)
	there := map[string]bool{"": true, peersByFlag: true, addressByFlag: true}
	for _, m := range variables {
		name := strings.ToLower(m[1])
		there[name] = true
		if _, listed := kubeVIPNoted[name]; !listed && !slices.Contains(kubeVIPMeaningless, name) && !slices.Contains(kubeVIPRead, name) {
			t.Errorf("variable %s is in no list", m[1])
		}
	}
	for name, flag := range kubeVIPFlags {
		if !found[name] || !there[flag.variable] {
			t.Errorf("--%s, or %s, is nothing of kube-vip's", name, flag.variable)
		}
	}
	checkVariablesOfFlags(t, read("cmd/kube-vip.go"), read("pkg/kubevip/config_envvar.go"), read("pkg/kubevip/config_environment.go"))
	if len(found) < 80 || len(variables) < 80 {
		t.Errorf("%d flags and %d variables were found", len(found), len(variables))
	}
}

// TestThreeHundredDocumentsAreRead counts each document once for each source that reads something of it.
func TestThreeHundredDocumentsAreRead(t *testing.T) {
	own := append(metalLBSamples(t), kubernetesSamples(t)...)
	for module, fits := range map[string]func(string) bool{
		"github.com/cilium/cilium": having("apiVersion: " + cilium + "/"), "github.com/kube-vip/kube-vip-cloud-provider": anyObject, "github.com/kube-vip/kube-vip": anyObject,
	} {
		own = append(own, samplesBelow(t, moduleOf(t, module), fits)...)
	}
	var all []document.Document
	for _, source := range Sources() {
		docs, objects := readBy(source, own)
		t.Logf("%-10s reads %3d documents, with %d objects", source, len(docs), objects)
		for _, doc := range docs {
			if !slices.ContainsFunc(all, func(have document.Document) bool {
				return have.Source == doc.Source && string(have.Data) == string(doc.Data)
			}) {
				all = append(all, doc)
			}
		}
	}
	if t.Logf("%d documents", len(all)); len(all) < 300 {
		t.Errorf("there are %d documents with something that a source reads, and 300 are wanted", len(all))
	}
}
