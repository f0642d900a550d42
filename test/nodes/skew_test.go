//go:build slow

package nodes

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// format has an object bear a number of the format; empty: none, as before there was one.
func (c *cluster) format(kind, name, number string) {
	c.t.Helper()
	arg := "plinth.dev/format-"
	if number != "" {
		arg = "plinth.dev/format=" + number
	}
	c.Kubectl("annotate", "--overwrite", "-n", "kube-system", kind, name, arg)
}

// TestWhatANewerVersionStoredIsKeptAndSaid has the objects of a cluster be those of a newer
// version, beneath a controller manager that leads and before one that starts: it says so,
// takes up no edit, deletes no Node, gives and takes no VIP. Then they are set back.
func TestWhatANewerVersionStoredIsKeptAndSaid(t *testing.T) {
	for _, starts := range []bool{false, true} {
		t.Run(fmt.Sprint("it starts: ", starts), func(t *testing.T) { newerVersionStored(t, starts) })
	}
}

func newerVersionStored(t *testing.T, starts bool) {
	program := plinth(t)
	c := newCluster(t, apiserver.Options{})
	c.edit(skewed("a", "active"))
	stop := c.start()
	for _, name := range []string{"w1", "old"} {
		c.register(node{name: name, notReady: name == "old"})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	c.Kubectl("create", "service", "loadbalancer", "web", "--tcp=80")
	vip := c.vip("web")
	c.format("ipaddress", vip, "")
	for _, name := range []string{"plinth-accepted", "plinth-accepted-r01"} {
		c.format("configmap", name, "") // an older version stored all of it
	}
	c.Quiet(apiserver.ControllerName, 0)

	if starts {
		stop()
	}
	c.format("configmap", "plinth-accepted", "99")
	stored := c.stored()
	c.format("ipaddress", vip, "99")
	if starts {
		c.start()
	}
	c.AwaitStatus("ready", "false")
	c.event("ConfigMap", "plinth-inventory-status", "InventoryNewerFormat", `configmap plinth-accepted is of format "99"`)
	c.tells(program, 1, []string{"configmap plinth-accepted is of format", `"InventoryNewerFormat"`}, "status", "-o", "json")
	c.edit(skewed("b", "retired"))
	c.Kubectl("delete", "service", "web", "--wait=false")
	c.Kubectl("create", "service", "loadbalancer", "other", "--tcp=80")
	c.stays(outlives, "w1", "old")
	if err := labelled(map[string]string{"topology.kubernetes.io/zone": "a"})(c.get("w1")); err != nil {
		t.Error(err)
	}
	if now := c.stored(); !maps.Equal(now, stored) {
		t.Errorf("stored was\n%v\nand is\n%v", stored, now)
	}
	if _, err := c.Client.NetworkingV1().IPAddresses().Get(t.Context(), vip, metav1.GetOptions{}); err != nil {
		t.Errorf("the VIP was given back: %v", err)
	}
	if n := strings.Count(c.Log(apiserver.ControllerName), "cannot read the inventory, which a newer version stored"); n != 1 {
		t.Errorf("it was said %d times", n)
	}

	c.format("ipaddress", vip, "1")
	c.format("configmap", "plinth-accepted", "1")
	c.AwaitStatus("ready", "true")
	c.until("w1", "has seen the edit", inZone("b"))
	c.vip("other")
}

// stored is what was accepted, but for the annotations.
func (c *cluster) stored() map[string]string {
	out := map[string]string{}
	for name, cm := range c.accepted() {
		out[name] = fmt.Sprint(cm.Data)
	}
	return out
}
