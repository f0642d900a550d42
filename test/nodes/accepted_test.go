package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// accepted returns the accepted inventory's ConfigMaps by name.
func (c *cluster) accepted() map[string]*v1.ConfigMap {
	c.t.Helper()
	list, err := c.Client.CoreV1().ConfigMaps("kube-system").List(c.t.Context(), metav1.ListOptions{LabelSelector: "plinth.dev/accepted=dc1"})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]*v1.ConfigMap{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

func TestEveryCarrierGivesTheSameAcceptedBytes(t *testing.T) {
	whole := apiserver.Document(twoMachines)
	head, racks, _ := strings.Cut(whole, "  racks:\n")
	rest := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  racks:\n" + racks
	parts := map[string]string{"a.yaml": rest, "z.yaml": head}
	carriers := map[string]func(c *cluster) (flags []string){
		"a ConfigMap":         func(c *cluster) []string { c.edit(whole); return nil },
		"keys of a ConfigMap": func(c *cluster) []string { c.configMap("one", parts); return nil },
		"several ConfigMaps":  func(c *cluster) []string { c.each(parts); return nil },
		"a file": func(c *cluster) []string {
			return []string{"--inventory=" + c.files(map[string]string{"dc1.yaml": whole}) + "/dc1.yaml"}
		},
		"a folder": func(c *cluster) []string { return []string{"--inventory=" + c.files(parts)} },
		"a folder with a subfolder": func(c *cluster) []string {
			return []string{"--inventory=" + c.files(map[string]string{"racks/a.yaml": rest, "base.yaml": head})}
		},
	}
	got := map[string]string{}
	for name, carry := range carriers {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, apiserver.Options{})
			c.start(carry(c)...)
			c.AwaitStatus("ready", "true")
			got[name] = fmt.Sprint(c.accepted()["plinth-accepted"].Data, c.accepted()["plinth-accepted.r01.1"].Data)
		})
	}
	for name := range carriers {
		if got[name] != got["a file"] || len(got[name]) < 100 {
			t.Errorf("%s gives\n%s\na file\n%s", name, got[name], got["a file"])
		}
	}
}

func (c *cluster) configMap(name string, data map[string]string) {
	c.t.Helper()
	cm := &v1.ConfigMap{Data: data}
	cm.Name, cm.Labels = name, map[string]string{"plinth.dev/inventory": "dc1"}
	if _, err := c.Client.CoreV1().ConfigMaps("kube-system").Create(c.t.Context(), cm, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) each(parts map[string]string) {
	for name, data := range parts {
		c.configMap(strings.TrimSuffix(name, ".yaml"), map[string]string{name: data})
	}
}

func (c *cluster) files(parts map[string]string) (folder string) {
	c.t.Helper()
	folder = c.t.TempDir()
	for name, data := range parts {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	return folder
}

func TestTwoThatDisagreeDoNotFight(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.edit(zoned("a", "active"))
	c.start()
	c.start("--inventory="+c.files(map[string]string{"dc1.yaml": zoned("b", "active")}), "--controllers=*,-service-lb-controller")
	c.Eventually(20*time.Second, "both have stored what they follow, or seen the other's", func(context.Context) error {
		if n := strings.Count(c.Log(apiserver.ControllerName), "into force"); n < 2 {
			return fmt.Errorf("%d generations", n)
		}
		return nil
	})
	c.quiet(5*time.Second, "plinth-accepted")
	generation := c.accepted()["plinth-accepted"].Annotations["plinth.dev/generation"]
	if n, err := strconv.Atoi(generation); err != nil || n < 2 || n > 3 {
		t.Errorf("generation %q, want that of the second's edit, or one more", generation)
	}
}

// quiet checks that for a while nobody writes objects of that name, or that
// begin with it.
func (c *cluster) quiet(while time.Duration, name string) {
	c.t.Helper()
	c.Quiet(apiserver.ControllerName, 0) // what is under way may end
	before := len(c.Writes())
	time.Sleep(while)
	for _, w := range c.Writes()[before:] {
		if strings.HasPrefix(w.Name, name) {
			c.t.Errorf("written: %v", w)
		}
	}
}

func TestWhatWasAcceptedIsStoredAgainWhenSomebodyTakesItAway(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.edit(zoned("a", "active"))
	stop := c.start()
	c.AwaitStatus("generation", "1")
	was := c.slice()
	c.Kubectl("delete", "configmap", "-n", "kube-system", "-l", "plinth.dev/accepted")
	c.Eventually(10*time.Second, "it is there again", func(context.Context) error {
		if is := c.slice(); is == nil || is.Data["inventory.yaml"] != was.Data["inventory.yaml"] {
			return fmt.Errorf("the slice is %v, all are %v", is, c.accepted())
		}
		return nil
	})
	slice := c.slice().DeepCopy()
	slice.Data["inventory.yaml"] = "{"
	if _, err := c.Client.CoreV1().ConfigMaps("kube-system").Update(t.Context(), slice, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a slice is changed: %v", err)
	}
	c.Kubectl("patch", "configmap", "-n", "kube-system", "plinth-accepted", "-p", `{"data":{"inventory.yaml":"{"}}`)
	c.Eventually(10*time.Second, "what lists it is put right", func(context.Context) error {
		if got := c.accepted()["plinth-accepted"].Data["inventory.yaml"]; got == "{" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})

	t.Log("deleted while nobody is there who knows it")
	stop()
	c.Kubectl("delete", "configmap", "-n", "kube-system", c.slice().Name, "plinth-accepted-r01")
	c.start()
	c.Eventually(10*time.Second, "it is there again, of the inventory that people wrote", func(context.Context) error {
		if is := c.slice(); is == nil || is.Data["inventory.yaml"] != was.Data["inventory.yaml"] {
			return fmt.Errorf("the slice is %v, all are %v", is, c.accepted())
		}
		return nil
	})
	c.AwaitStatus("ready", "true")
}

// slice is that of rack r01 which is listed, the only rack; nil: there is none.
func (c *cluster) slice() *v1.ConfigMap {
	c.t.Helper()
	parts := c.accepted()
	if common := parts["plinth-accepted"]; common != nil {
		return parts["plinth-accepted."+strings.Join(strings.Fields(common.Data["racks"]), ".")]
	}
	return nil
}

func TestManyMachinesGoOnlyWithLeave(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.start()
	c.edit(zoned("a", "active"))
	c.AwaitStatus("generation", "1")
	both := strings.ReplaceAll(zoned("a", "retired"), "13]}", "13], state: retired}")
	c.edit(both)
	c.AwaitStatus("ready", "false")
	c.event("ConfigMap", apiserver.InventoryName, "InventoryRefused", "plinth.dev/allow-removals")
	c.EditInventory(both, map[string]string{"plinth.dev/allow-removals": "2"})
	c.AwaitStatus("ready", "true")
	c.AwaitStatus("generation", "2")
}

func TestFiveThousandMachinesAreStoredInSlices(t *testing.T) {
	c := newCluster(t, apiserver.Options{})
	c.configMaps(5000)
	c.start()
	c.AwaitStatus("ready", "true")
	c.Quiet(apiserver.ControllerName, 0)
	parts := c.accepted()
	if len(parts) != 1+125+125 { // with the copies for version 0.1
		t.Errorf("%d ConfigMaps", len(parts))
	}
	for name, cm := range parts {
		if size := len(cm.Data["inventory.yaml"]); size > 100<<10 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
	before := len(c.Writes())
	c.edit(strings.Replace(apiserver.Document("  racks: [{name: r999, machines: [{name: one, addresses: [172.30.0.1]}]}]\n"), "address: 10.10.1.1", "address: 192.168.255.1", 1))
	c.AwaitStatus("ready", "false") // the spec stands twice now: bgp was given already
	c.edit("apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  racks: [{name: r999, machines: [{name: one, addresses: [172.30.0.1]}]}]\n")
	c.AwaitStatus("generation", "2")
	c.Quiet(apiserver.ControllerName, 0)
	n := 0
	for _, w := range c.Written(before) {
		if strings.HasPrefix(w.Name, "plinth-accepted") {
			n++
		}
	}
	if n != 4 {
		t.Errorf("a rack more was %d writes, not its slice, the common part, that of the generation before, and the copy of the slice", n)
	}
}

// configMaps writes an inventory of that many machines into ConfigMaps of a
// thousand machines each.
func (c *cluster) configMaps(machines int) {
	c.t.Helper()
	head, racks, _ := strings.Cut(apiserver.ManyMachines(machines), "  racks:\n")
	c.configMap("base", map[string]string{"base.yaml": head})
	const begin = "    - name: "
	all := strings.Split(strings.TrimPrefix(racks, begin), begin)
	for i := 0; i < len(all); i += 25 {
		text := "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  racks:\n"
		for _, rack := range all[i:min(i+25, len(all))] {
			text += begin + rack
		}
		c.configMap(fmt.Sprintf("racks-%d", i), map[string]string{"racks.yaml": text})
	}
}
