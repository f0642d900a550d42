package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// rendered is what kustomize prints of a folder: an inventory's ConfigMap among others.
const rendered = `apiVersion: v1
kind: ServiceAccount
metadata: {name: plinth-agent, namespace: kube-system}
---
apiVersion: v1
data:
  readme.md: not for Plinth
  home.yaml: |
    apiVersion: plinth.dev/v1alpha1
    kind: Inventory
    metadata: {name: home}
    spec:
      bgp: {asn: 64514}
      pools:
        - {name: default, addresses: [192.168.50.0/26]}
  rest.json: '{"apiVersion":"plinth.dev/v1alpha1","kind":"Inventory","metadata":{"name":"home"},"spec":{"region":"here"}}'
binaryData:
  more.yaml: YXBpVmVyc2lvbjogcGxpbnRoLmRldi92MWFscGhhMQpraW5kOiBJbnZlbnRvcnkKbWV0YWRhdGE6IHtuYW1lOiBob21lfQpzcGVjOiB7bGFiZWxzOiB7YTogYn19Cg==
kind: ConfigMap
metadata:
  name: inventory
  namespace: kube-system
  labels: {plinth.dev/inventory: home}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plinth-agent}
spec: {template: {}}
`

func parsed(t *testing.T, e Edit) (*inventory.Inventory, string) {
	t.Helper()
	inv, problems := document.Parse(e.Documents...)
	return inv, append(e.Problems, problems...).String()
}

func TestAConfigMapIsUnwrappedAndOtherKindsArePassedOver(t *testing.T) {
	inv, problems := parsed(t, ReadText("-", []byte(rendered)))
	if problems != "" || inv == nil {
		t.Fatalf("problems:\n%s", problems)
	}
	if inv.Name != "home" || inv.Region != "here" || len(inv.Pools) != 1 || inv.NodeLabels["a"] != "b" {
		t.Errorf("not everything was read: %+v", inv)
	}
}

func TestAListOfConfigMapsIsUnwrapped(t *testing.T) {
	item := strings.ReplaceAll(strings.Split(rendered, "---\n")[1], "\n", "\n    ")
	inv, problems := parsed(t, ReadText("-", []byte("apiVersion: v1\nkind: List\nitems:\n  - "+item)))
	if problems != "" || inv == nil || inv.Region != "here" {
		t.Errorf("got %+v\n%s", inv, problems)
	}
}

// A problem of a ConfigMap's key is named as the controller names it, and its place in the
// file is known besides, for those who show it there.
func TestAProblemInAConfigMapNamesItAndItsKey(t *testing.T) {
	bad := strings.Replace(rendered, "192.168.50.0/26", "192.168.50.1/26", 1)
	for name, source := range map[string]string{
		"-":             "configmap/kube-system/inventory/home.yaml",
		"deploy/a.yaml": "deploy/a.yaml#configmap/kube-system/inventory/home.yaml",
	} {
		e := ReadText(name, []byte(bad))
		_, problems := document.Parse(e.Documents...)
		if len(problems) != 1 || problems[0].Source != source || problems[0].Line != 7 || problems[0].Column != 35 {
			t.Errorf("%s: got %v", name, problems)
			continue
		}
		want := inventory.Position{Source: name, Line: 15, Column: 39}
		if got := e.InFile(problems[0].Position()); got != want {
			t.Errorf("%s: it stands at %v, want %v", name, got, want)
		}
		if line := strings.Split(bad, "\n")[want.Line-1]; !strings.HasPrefix(line[want.Column-1:], "192.168.50.1/26") {
			t.Errorf("%s: %v is %q", name, want, line[want.Column-1:])
		}
	}
}

// However people indent a block, and whatever stands between its key and its text.
func TestPlacesInABlockAreTrueWhateverItsIndentation(t *testing.T) {
	const before = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, labels: {plinth.dev/inventory: home}}\ndata:\n"
	const text = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec: {bpg: {}}\n"
	for name, c := range map[string]struct{ header, indent, text string }{
		"two":                    {"  a.yaml: |", "    ", text},
		"none more than the key": {"  a.yaml: |-", "   ", text},
		"eight":                  {"  a.yaml: |", "        ", text},
		"said":                   {"  a.yaml: |2", "    ", "  # indented\n" + text},
		"an empty line first":    {"  a.yaml: |", "    ", "\n\n" + text},
		"a comment after":        {"  a.yaml: | # of home", "    ", text},
		"a tag":                  {"  a.yaml: !!str |", "    ", text},
		"an anchor of its own":   {"  a.yaml: &a\n    |", "    ", text},
	} {
		block := c.indent + strings.ReplaceAll(strings.TrimSuffix(c.text, "\n"), "\n", "\n"+c.indent)
		whole := before + c.header + "\n" + strings.ReplaceAll(block, c.indent+"\n", "\n") + "\n"
		e := ReadText("-", []byte(whole))
		_, problems := document.Parse(e.Documents...)
		if len(problems) != 1 {
			t.Errorf("%s: got %v", name, problems)
			continue
		}
		at := e.InFile(problems[0].Position())
		lines := strings.Split(whole, "\n")
		if at.Line < 1 || at.Line > len(lines) || at.Column < 1 || !strings.HasPrefix(lines[at.Line-1][min(at.Column-1, len(lines[at.Line-1])):], "bpg") {
			t.Errorf("%s: %v of\n%s", name, at, whole)
		}
	}
}

func TestAConfigMapWhoseKeysAreAliasesIsUnwrapped(t *testing.T) {
	text := strings.Replace(rendered, "  readme.md: not for Plinth\n  home.yaml: |", "  readme.md: &text |", 1)
	text = strings.Replace(text, "  rest.json:", "  home.yaml: *text\n  rest.json:", 1)
	if inv, problems := parsed(t, ReadText("-", []byte(text))); problems != "" || inv == nil || len(inv.Pools) != 1 {
		t.Errorf("got %+v\n%s", inv, problems)
	}
}

// Whoever wonders why a document does not count sees that it was seen.
func TestWhatIsPassedOverIsKnown(t *testing.T) {
	e := ReadText("all.yaml", []byte(rendered+"---\n{kind: List, apiVersion: v1, items: [{kind: Secret}, {kind: ConfigMap}]}\n---\nreplicas: 2\n"))
	e = e.Join(ReadText("a/kustomization.yaml", []byte("resources: [all.yaml]\n")))
	want := []string{"ServiceAccount", "all.yaml#configmap/kube-system/inventory/readme.md", "DaemonSet", "Secret", "ConfigMap", "all.yaml", "a/kustomization.yaml"}
	if diff := cmp.Diff(want, e.PassedOver); diff != "" {
		t.Error(diff)
	}
}

func TestTheOtherPlacesOfAMixedFileStayWhereTheyAre(t *testing.T) {
	text := "kind: Deployment\napiVersion: apps/v1\n---\napiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nspec: {bpg: {}}\n---\nkind: Service\napiVersion: v1\n"
	e := ReadText("all.yaml", []byte(text))
	_, problems := document.Parse(e.Documents...)
	if len(problems) != 1 || problems[0].Position().String() != "all.yaml:7:8" || e.InFile(problems[0].Position()) != problems[0].Position() {
		t.Errorf("got %v", problems)
	}
}

func TestALabelThatNamesAnotherInventoryIsRefused(t *testing.T) {
	_, problems := parsed(t, ReadText("all.yaml", []byte(strings.Replace(rendered, "inventory: home", "inventory: hom", 1))))
	if !strings.Contains(problems, "all.yaml:23:") || !strings.Contains(problems, "error[P0105]") || !strings.Contains(problems, `got "hom"; accepted: home`) {
		t.Errorf("got %s", problems)
	}
}

// Plinth does not read such a ConfigMap in a cluster, and whoever wrote it thinks it does.
func TestAnInventoryInAConfigMapWithoutTheLabelIsAWarning(t *testing.T) {
	bare := strings.Replace(rendered, "  labels: {plinth.dev/inventory: home}\n", "", 1)
	inv, problems := parsed(t, ReadText("all.yaml", []byte(bare)))
	if inv != nil || !strings.Contains(problems, "all.yaml:20:1: warning[P0108]: metadata.labels: ") || !strings.Contains(problems, "did you mean \"plinth.dev/inventory: home\"") {
		t.Errorf("got %v\n%s", inv, problems)
	}
	if !strings.Contains(problems, "error[P0106]: there is no inventory here; accepted: a document of kind Inventory, or a ConfigMap with the label plinth.dev/inventory that holds one") {
		t.Errorf("nobody says what would be right:\n%s", problems)
	}
	accepted := strings.Replace(bare, "  namespace:", "  labels: {plinth.dev/accepted: home}\n  namespace:", 1)
	if _, problems := parsed(t, ReadText("all.yaml", []byte(accepted))); strings.Contains(problems, "P0108") {
		t.Errorf("what Plinth keeps itself is taken for a mistake:\n%s", problems)
	}
}

// What may have been meant for an inventory is never passed over: its machines would be
// missing, and nobody would say so.
func TestWhatMayBeAnInventoryIsNotPassedOver(t *testing.T) {
	for text, code := range map[string]string{
		"apiVersion: plinth.dev/v1alpha1\nkind: Inventry\nmetadata: {name: home}\n":  "P0104",
		"apiVersion: plinth.dve/v1alpha1\nkind: Inventory\nmetadata: {name: home}\n": "P0103",
		"apiVersion: plinth.dev/v1\nkind: Inventory\nmetadata: {name: home}\n":       "P0103",
		"kind: Inventory\nmetadata: {name: home}\n":                                  "P0204",
		"metadata: {name: home}\nspec: {racks: []}\n":                                "P0204",
		"racks: [{name: r1}]\n":        "P0204",
		"- {name: r1, machines: []}\n": "P0203",
		"apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\nx: [\n": "P0101",
	} {
		if _, problems := parsed(t, ReadText("a.yaml", []byte(text))); !strings.Contains(problems, "["+code+"]") || strings.Contains(problems, "P0106") {
			t.Errorf("%q: want %s, got\n%s", text, code, problems)
		}
	}
}

func TestWhatIsNoInventoryIsPassedOver(t *testing.T) {
	const home = "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: home}\n"
	for name, other := range map[string]string{
		"kustomization.yaml": "configMapGenerator: [{name: inventory, files: [a.yaml]}]\n",
		"kustomization.yml":  "resources: [spec.yaml]\n",
		"values.yaml":        "controller: {replicas: 2}\n",
		"cluster.yaml":       "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: []\n",
		"package.json":       `{"name": "site", "version": "1"}`,
		"empty.yaml":         "# nothing yet\n",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "home.yaml"), home)
		write(t, filepath.Join(dir, name), other)
		e, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if inv, problems := parsed(t, e); inv == nil || problems != "" {
			t.Errorf("%s: %s", name, problems)
		}
	}
}

// The folders that people are shown are read as they are, and as kustomize would render
// them the same inventory comes out.
func TestTheShippedOverlayIsAnInventory(t *testing.T) {
	const overlay = "../../deploy/overlays/homelab"
	e, err := Read(overlay)
	if err != nil {
		t.Fatal(err)
	}
	inv, problems := parsed(t, e)
	if inv == nil || problems != "" {
		t.Errorf("%s", problems)
	}
	if _, err := os.Stat(filepath.Join(overlay, "kustomization.yaml")); err != nil {
		t.Fatal(err)
	}
}

// The controller reads a folder as plinth validate does.
func TestTheControllersFolderIsReadAlike(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "all.yaml"), rendered)
	write(t, filepath.Join(dir, "kustomization.yaml"), "resources: [all.yaml]\n")
	proposed := nextEdit(t, followed(t, dir))
	if inv, problems := parsed(t, proposed); inv == nil || problems != "" || inv.Region != "here" {
		t.Errorf("got %v\n%s", inv, problems)
	}
}

// Whatever stands in a file, every line of it keeps its number, nothing of it is read
// twice, and each place in a document is one in the file.
func FuzzReadText(f *testing.F) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(rendered)
	f.Add("---\n--- |\n---x\n--- {}\nkind: List\napiVersion: v1\nitems: [{kind: ConfigMap, data: {a.yaml: \"\\n\"}, metadata: {labels: {plinth.dev/inventory: a}}}]\n...\n")
	f.Fuzz(func(t *testing.T, text string) {
		e := ReadText("a.yaml", []byte(text))
		lines := strings.Count(text, "\n")
		if got := strings.Count(string(e.Documents[0].Data), "\n"); got != lines {
			t.Errorf("%d lines of %d are left", got, lines)
		}
		if again := ReadText("a.yaml", e.Documents[0].Data); len(again.Documents) != 1 || string(again.Documents[0].Data) != string(e.Documents[0].Data) {
			t.Errorf("read again, %q is %v", e.Documents[0].Data, again.Documents)
		}
		breaks := lines // YAML has other line breaks besides
		for _, other := range []string{"\r", "\u0085", "\u2028", "\u2029"} {
			breaks += strings.Count(text, other)
		}
		_, problems := document.Parse(e.Documents...)
		for _, p := range append(e.Problems, problems...) {
			if at := e.InFile(p.Position()); at.Source != "a.yaml" && at.Source != "" || at.Line > breaks+1 && p.Code != inventory.BadYAML {
				t.Errorf("%v stands at %v, and there are %d lines", p, at, breaks)
			}
		}
	})
}
