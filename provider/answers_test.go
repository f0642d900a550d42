package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"plinth.dev/plinth/golden"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/node"
)

// machinesOfEveryState has one machine in each state; those after "held" are
// what no inventory file can say.
const machinesOfEveryState = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  routers: [{name: tor, address: 10.10.1.1, asn: 65101}]
  racks:
    - name: r01
      zone: a
      machines:
        - {name: active, addresses: [10.10.1.11]}
        - {name: maintenance, addresses: [10.10.1.12], state: maintenance, reason: disks}
        - {name: "off", addresses: [10.10.1.13], state: "off", reason: summer}
        - {name: planned, addresses: [10.10.1.14], state: planned}
        - {name: retired, addresses: [10.10.1.15], state: retired}
        - {name: held, addresses: [10.10.1.16]}
        - {name: other, addresses: [10.10.1.17], match: {systemUUID: 00000000-0000-0000-0000-000000000001}}
        - {name: shared, addresses: [10.10.1.18], aliases: ["k3s://shared"]}
`

// listed is an informer that has seen all that there is.
type listed struct{ cache.SharedIndexInformer }

func (listed) HasSynced() bool { return true }

// cloudWith returns a Cloud that an inventory is in force of, without a cluster.
func cloudWith(t *testing.T, text string, change func(*inventory.Inventory)) *Cloud {
	t.Helper()
	c := New(Options{})
	c.informers = informers.NewSharedInformerFactory(nil, 0) // never started
	if err := c.index.Use(listed{c.informers.Core().V1().Nodes().Informer()}); err != nil {
		t.Fatal(err)
	}
	c.nodes.Use(node.Cluster{Nodes: c.informers.Core().V1().Nodes(), Reports: event.NewReports(record.NewFakeRecorder(100))})
	if text == "" {
		return c
	}
	inv, problems := document.Load(document.Document{Source: "dc1.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(inv)
	}
	c.inForce.Set(inv)
	return c
}

func hold(name string) func(*inventory.Inventory) {
	return func(inv *inventory.Inventory) {
		for i := range inv.Racks[0].Machines {
			if m := &inv.Racks[0].Machines[i]; m.Name == name {
				m.Held = true
			}
		}
	}
}

// situation is a Node and what the inventory says of it.
type situation struct {
	name  string
	cloud *Cloud
	node  *v1.Node
}

func situations(t *testing.T) (all []situation) {
	add := func(name, inventory string, node *v1.Node, others ...*v1.Node) {
		c := cloudWith(t, inventory, hold("held"))
		for _, n := range append(others, node) {
			if err := c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, situation{name, c, node})
	}
	for _, state := range []string{"active", "maintenance", "off", "planned", "retired", "held"} {
		add(state, machinesOfEveryState, nodeNamed(state, "plinth://"+state))
	}
	ambiguous := nodeNamed("active", "")
	ambiguous.Status.NodeInfo.SystemUUID = "00000000-0000-0000-0000-000000000001"
	add("two machines match", machinesOfEveryState, ambiguous)
	add("two Nodes match", machinesOfEveryState, nodeNamed("shared", "k3s://shared"), nodeNamed("twin", "k3s://shared"))
	add("our ID, no machine", machinesOfEveryState, nodeNamed("gone", "plinth://gone"))
	add("none of ours", machinesOfEveryState, nodeNamed("stranger", "aws:///stranger"))
	add("no inventory in force", "", nodeNamed("active", "plinth://active"))
	return all
}

func nodeNamed(name, providerID string) *v1.Node {
	n := &v1.Node{Spec: v1.NodeSpec{ProviderID: providerID}}
	n.Name, n.UID = name, types.UID(name)
	return n
}

// errNoID is why a Node cannot be asked about by provider ID.
var errNoID = errors.New("it has no provider ID")

// question is a method of the interface, asked about a Node.
type question struct {
	name string
	ask  func(c *Cloud, n *v1.Node) (any, error)
}

func questions() []question {
	ctx := context.Background()
	v2 := func(c *Cloud) cloudprovider.InstancesV2 { all, _ := c.InstancesV2(); return all }
	old := func(c *Cloud) cloudprovider.Instances { all, _ := c.Instances(); return all }
	zones := func(c *Cloud) cloudprovider.Zones { all, _ := c.Zones(); return all }
	name := func(n *v1.Node) types.NodeName { return types.NodeName(n.Name) }
	byID := func(ask func(c *Cloud, id string) (any, error)) func(*Cloud, *v1.Node) (any, error) {
		return func(c *Cloud, n *v1.Node) (any, error) {
			if n.Spec.ProviderID == "" {
				return nil, errNoID
			}
			return ask(c, n.Spec.ProviderID)
		}
	}
	return []question{
		{"InstancesV2.InstanceExists", func(c *Cloud, n *v1.Node) (any, error) { return v2(c).InstanceExists(ctx, n) }},
		{"InstancesV2.InstanceShutdown", func(c *Cloud, n *v1.Node) (any, error) { return v2(c).InstanceShutdown(ctx, n) }},
		{"InstancesV2.InstanceMetadata", func(c *Cloud, n *v1.Node) (any, error) { return v2(c).InstanceMetadata(ctx, n) }},
		{"Instances.InstanceExistsByProviderID", byID(func(c *Cloud, id string) (any, error) { return old(c).InstanceExistsByProviderID(ctx, id) })},
		{"Instances.InstanceShutdownByProviderID", byID(func(c *Cloud, id string) (any, error) { return old(c).InstanceShutdownByProviderID(ctx, id) })},
		{"Instances.NodeAddresses", func(c *Cloud, n *v1.Node) (any, error) { return old(c).NodeAddresses(ctx, name(n)) }},
		{"Instances.NodeAddressesByProviderID", byID(func(c *Cloud, id string) (any, error) { return old(c).NodeAddressesByProviderID(ctx, id) })},
		{"Instances.InstanceID", func(c *Cloud, n *v1.Node) (any, error) { return old(c).InstanceID(ctx, name(n)) }},
		{"Instances.InstanceType", func(c *Cloud, n *v1.Node) (any, error) { return old(c).InstanceType(ctx, name(n)) }},
		{"Instances.InstanceTypeByProviderID", byID(func(c *Cloud, id string) (any, error) { return old(c).InstanceTypeByProviderID(ctx, id) })},
		{"Instances.CurrentNodeName", func(c *Cloud, n *v1.Node) (any, error) { return old(c).CurrentNodeName(ctx, n.Name) }},
		{"Instances.AddSSHKeyToAllInstances", func(c *Cloud, _ *v1.Node) (any, error) {
			return nil, old(c).AddSSHKeyToAllInstances(ctx, "root", nil)
		}},
		{"Zones.GetZoneByNodeName", func(c *Cloud, n *v1.Node) (any, error) { return zones(c).GetZoneByNodeName(ctx, name(n)) }},
		{"Zones.GetZoneByProviderID", byID(func(c *Cloud, id string) (any, error) { return zones(c).GetZoneByProviderID(ctx, id) })},
	}
}

// told is an answer in a word.
func told(answer any, err error) string {
	switch {
	case errors.Is(err, errNoID):
		return "-"
	case errors.Is(err, cloudprovider.InstanceNotFound):
		return "InstanceNotFound"
	case errors.Is(err, cloudprovider.NotImplemented):
		return "NotImplemented"
	case err != nil:
		return "error"
	}
	if b, ok := answer.(bool); ok {
		return fmt.Sprintf("**%t**", b)
	}
	return "answer"
}

func table(t *testing.T) string {
	all := situations(t)
	var b strings.Builder
	b.WriteString("| method |")
	for _, s := range all {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, q := range questions() {
		b.WriteString("| `" + q.name + "` |")
		for _, s := range all {
			b.WriteString(" " + told(q.ask(s.cloud, s.node)) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestTheReferenceSaysWhatEveryMethodAnswers(t *testing.T) {
	const begin, end = "<!-- begin of the table; go test ./provider -update -->\n", "<!-- end of the table -->\n"
	file := filepath.Join("..", "docs", "reference", "cloud-provider.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	golden.Hold(t, file, []byte(before+begin+table(t)+end+after))
}

func TestOnlyARetiredMachineLetsItsNodeBeDeleted(t *testing.T) {
	for _, s := range situations(t) {
		v2, _ := s.cloud.InstancesV2()
		exists, err := v2.InstanceExists(t.Context(), s.node)
		if gone := err == nil && !exists; gone != (s.name == "retired") {
			t.Errorf("%s: %t, %v", s.name, exists, err)
		}
	}
}
