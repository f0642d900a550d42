//go:build samples

package importer

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"plinth.dev/plinth/inventory"
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

// TestThreeHundredDocumentsAreRead counts each document once for each source that reads something of it.
func TestThreeHundredDocumentsAreRead(t *testing.T) {
	own := append(metalLBSamples(t), kubernetesSamples(t)...)
	for module, fits := range map[string]func(string) bool{
		"github.com/cilium/cilium": having("apiVersion: " + cilium + "/"), "github.com/kube-vip/kube-vip-cloud-provider": anyObject, "github.com/kube-vip/kube-vip": anyObject,
	} {
		own = append(own, samplesBelow(t, moduleOf(t, module), fits)...)
	}
	var all []inventory.Document
	for _, source := range Sources() {
		docs, objects := readBy(source, own)
		t.Logf("%-10s reads %3d documents, with %d objects", source, len(docs), objects)
		for _, doc := range docs {
			if !slices.ContainsFunc(all, func(have inventory.Document) bool {
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
