//go:build samples

package importer

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
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

// TestTheLawHoldsForAllThatCiliumShips tries each document by itself, and those of a folder, page or archive together, as people apply them.
func TestTheLawHoldsForAllThatCiliumShips(t *testing.T) {
	docs := samplesBelow(t, moduleOf(t, "github.com/cilium/cilium"), "apiVersion: "+cilium+"/")
	if objects := lawOver(t, "cilium", docs); objects < 110 {
		t.Errorf("only %d objects were found", objects)
	}
	lawOver(t, "cilium", together(docs))
}

func TestTheLawHoldsForAllThatTheCloudProviderOfKubeVIPShips(t *testing.T) {
	docs := samplesBelow(t, moduleOf(t, "github.com/kube-vip/kube-vip-cloud-provider"), "apiVersion: ")
	if objects := lawOver(t, "kube-vip", docs); objects < 9 {
		t.Errorf("only %d objects were found", objects)
	}
	lawOver(t, "kube-vip", together(docs))
}

// TestTheLawHoldsForServicesAndProgramsOfOthers tries what is nobody's, for the sources that look at every Service and program of a cluster.
func TestTheLawHoldsForServicesAndProgramsOfOthers(t *testing.T) {
	kinds := regexp.MustCompile(`(?m)^kind: (Service|DaemonSet|Deployment|Pod|ConfigMap|Node)$`)
	docs := samplesBelow(t, moduleOf(t, "github.com/cilium/cilium"), "apiVersion: ")
	docs = slices.DeleteFunc(docs, func(doc inventory.Document) bool { return !kinds.Match(doc.Data) })
	for _, source := range []string{"servicelb", "kube-vip"} {
		if objects := lawOver(t, source, docs); objects < 400 {
			t.Errorf("%s: only %d objects were found", source, objects)
		}
	}
}

// together joins the documents of each folder, page and archive.
func together(docs []inventory.Document) (all []inventory.Document) {
	at := map[string]int{}
	for _, doc := range docs {
		if _, unread := readObjects([]inventory.Document{doc}); unread.Failed() {
			continue
		}
		name, _, of := strings.Cut(doc.Source, "#")
		if !of {
			name = path.Dir(name)
		}
		i, there := at[name]
		if !there {
			i = len(all)
			at[name] = i
			all = append(all, inventory.Document{Source: name + " together"})
		}
		all[i].Data = append(append(all[i].Data, "\n---\n"...), doc.Data...)
	}
	return all
}
