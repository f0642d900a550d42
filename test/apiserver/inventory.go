package apiserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InventoryName is the ConfigMap that EditInventory writes.
const InventoryName = "inventory"

// RackSize is the number of machines in a rack of ManyMachines.
const RackSize = 40

// Document wraps racks and other parts of a spec, indented by two, in a document
// of the inventory dc1.
func Document(spec string) string {
	return "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  bgp: {asn: 65010}\n" +
		"  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]\n" + spec
}

// ManyMachines is an inventory of dual-stack machines in racks of RackSize.
func ManyMachines(count int) string {
	var b strings.Builder
	b.WriteString("  racks:\n")
	for i := range count {
		if i%RackSize == 0 {
			fmt.Fprintf(&b, "    - name: %s\n      row: a\n      machines:\n", RackOf(i))
		}
		fmt.Fprintf(&b, "        - {name: %s, type: m, unit: %d, addresses: [172.16.%d.%d, \"2001:db8::%x:%x\"]}\n",
			MachineName(i), i%RackSize+1, i/RackSize, i%RackSize+11, i/RackSize, i%RackSize+11)
	}
	return strings.Replace(Document(b.String()), "address: 10.10.1.1", "address: 192.168.255.1", 1)
}

// MachineName is the name of a machine of ManyMachines, counted from 0.
func MachineName(i int) string { return fmt.Sprintf("m%04d", i) }

// RackOf is the name of the rack that a machine of ManyMachines stands in.
func RackOf(i int) string { return fmt.Sprintf("r%03d", i/RackSize) }

// EditInventory puts an inventory, in one document, into a ConfigMap with these
// annotations, which may be nil.
func (c *Controller) EditInventory(text string, annotations map[string]string) {
	c.t.Helper()
	ctx := c.t.Context()
	maps := c.Client.CoreV1().ConfigMaps(namespace)
	cm := &v1.ConfigMap{Data: map[string]string{"dc1.yaml": text}}
	cm.Name, cm.Annotations = InventoryName, annotations
	cm.Labels = map[string]string{"plinth.dev/inventory": "dc1"}
	_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// AwaitStatus waits until the status of the inventory is as wanted.
func (c *Controller) AwaitStatus(key, want string) {
	c.t.Helper()
	c.Eventually(20*time.Second, "status "+key+" is "+want, func(ctx context.Context) error {
		cm, err := c.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err == nil && cm.Data[key] != want {
			return fmt.Errorf("it is %q; problems: %s", cm.Data[key], cm.Data["problems"])
		}
		return err
	})
}
