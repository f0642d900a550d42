package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
)

// A law: whoever asks by name or provider ID gets what InstancesV2 says of that Node, in every state of its machine and
// whatever Nodes say of themselves.
func TestTheOlderInterfacesSayWhatInstancesV2Says(t *testing.T) {
	const uuid = "00000000-0000-0000-0000-00000000000"
	agreed := 0
	rapid.Check(t, func(r *rapid.T) {
		machines, names, mayBeHeld := "", []string{"m1", "m2", "m3"}, []string{""}
		for i, name := range names {
			state := rapid.SampledFrom([]string{"active", "maintenance", "off", "planned", "retired"}).Draw(r, name+" is")
			if state != "retired" { // that is not kept once nobody mentions it
				mayBeHeld = append(mayBeHeld, name)
			}
			machines += fmt.Sprintf("        - {name: %s, type: kind-%d, addresses: [10.10.1.1%d, \"2001:db8::1%d\"], aliases: [\"k3s://%s\"], state: %q%s%s}\n", name, i, i, i, name,
				state,
				rapid.SampledFrom([]string{"", ", match: {systemUUID: " + uuid + fmt.Sprint(i) + "}"}).Draw(r, name+" has the board"),
				rapid.SampledFrom([]string{"", ", id: other-" + name}).Draw(r, name+" has the ID"))
		}
		text := machinesOfEveryState[:strings.Index(machinesOfEveryState, "        - {")] + machines
		held := rapid.SampledFrom(mayBeHeld).Draw(r, "held")
		c := cloudWith(t, text, hold(held))
		v2, _ := c.InstancesV2()
		old, _ := c.Instances()
		zones, _ := c.Zones()
		var nodes []*v1.Node
		for i := range rapid.IntRange(1, 3).Draw(r, "Nodes") {
			label := fmt.Sprintf("Node %d ", i)
			n := nodeNamed(rapid.SampledFrom(append([]string{"s1", "s2", "s3"}, names...)).Draw(r, label+"is called"),
				rapid.SampledFrom([]string{"", "plinth://m1", "plinth://other-m1", "plinth://m2", "plinth://gone", "k3s://m3", "aws://x"}).Draw(r, label+"has the provider ID"))
			n.Status.NodeInfo.SystemUUID = rapid.SampledFrom([]string{"", uuid + "0", uuid + "1", uuid + "2", uuid + "9"}).Draw(r, label+"reports")
			if slices.ContainsFunc(nodes, func(o *v1.Node) bool { return o.Name == n.Name }) {
				continue
			}
			nodes = append(nodes, n)
			if err := c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
				r.Fatal(err)
			}
		}
		for _, n := range nodes {
			same := func(what string, want any, wantErr error, got any, err error) {
				r.Helper()
				agreed++
				if told(want, wantErr) != told(got, err) || wantErr == nil && fmt.Sprint(want) != fmt.Sprint(got) {
					r.Fatalf("Node %s, %s: %v, %v; InstancesV2 says %v, %v", n.Name, what, got, err, want, wantErr)
				}
			}
			m, unknown := v2.InstanceMetadata(t.Context(), n)
			if m == nil {
				m = &cloudprovider.InstanceMetadata{}
			}
			name, zone := types.NodeName(n.Name), cloudprovider.Zone{FailureDomain: m.Zone, Region: m.Region}
			addresses, err := old.NodeAddresses(t.Context(), name)
			same("NodeAddresses", m.NodeAddresses, unknown, addresses, err)
			kind, err := old.InstanceType(t.Context(), name)
			same("InstanceType", m.InstanceType, unknown, kind, err)
			place, err := zones.GetZoneByNodeName(t.Context(), name)
			same("GetZoneByNodeName", zone, unknown, place, err)
			_, machine, _ := c.index.MachineOf(n)
			id, err := cloudprovider.GetInstanceProviderID(t.Context(), c, name)
			if unknown == nil {
				same("InstanceID", machine.ProviderID(), nil, id, err)
			} else if err == nil {
				r.Fatalf("Node %s has the ID %s, and InstancesV2 says %v", n.Name, id, unknown)
			}
			if has, err := old.CurrentNodeName(t.Context(), n.Name); err != nil || has != name {
				r.Fatalf("on host %s it runs on Node %s, %v", n.Name, has, err)
			}
			exists, wantErr := v2.InstanceExists(t.Context(), n)
			off, offErr := v2.InstanceShutdown(t.Context(), n)
			stays, isOff := askedTheOldWay(t.Context(), c, n)
			if !stays && (exists || wantErr != nil) {
				r.Fatalf("Node %s is deleted; InstancesV2 says %t, %v", n.Name, exists, wantErr)
			}
			if isOff && (!off || offErr != nil) {
				r.Fatalf("Node %s is shut down; InstancesV2 says %t, %v", n.Name, off, offErr)
			}
			own := n.Spec.ProviderID
			if own == "" {
				continue
			}
			got, err := old.InstanceExistsByProviderID(t.Context(), own)
			if slices.ContainsFunc(nodes, func(o *v1.Node) bool { return o != n && o.Spec.ProviderID == own }) {
				if err == nil {
					r.Fatalf("two Nodes have %s, and the machine exists: %t", own, got)
				}
				continue
			}
			same("InstanceExistsByProviderID", exists, wantErr, got, err)
			got, err = old.InstanceShutdownByProviderID(t.Context(), own)
			same("InstanceShutdownByProviderID", off, offErr, got, err)
			addresses, err = old.NodeAddressesByProviderID(t.Context(), own)
			same("NodeAddressesByProviderID", m.NodeAddresses, unknown, addresses, err)
			kind, err = old.InstanceTypeByProviderID(t.Context(), own)
			same("InstanceTypeByProviderID", m.InstanceType, unknown, kind, err)
			place, err = zones.GetZoneByProviderID(t.Context(), own)
			same("GetZoneByProviderID", zone, unknown, place, err)
		}
	})
	if agreed < 100 {
		t.Errorf("%d answers were compared", agreed)
	}
}

// askedTheOldWay says what the stock lifecycle controller does with a Node that is not Ready where a cloud has no InstancesV2
// (k8s.io/cloud-provider v0.37.2, node_lifecycle_controller.go): whether the Node stays, and is tainted as shut down.
func askedTheOldWay(ctx context.Context, c *Cloud, n *v1.Node) (stays, off bool) {
	old, _ := c.Instances()
	id := n.Spec.ProviderID
	if id == "" {
		var err error
		if id, err = cloudprovider.GetInstanceProviderID(ctx, c, types.NodeName(n.Name)); err != nil {
			return !errors.Is(err, cloudprovider.InstanceNotFound), false
		}
	}
	exists, err := old.InstanceExistsByProviderID(ctx, id)
	if err != nil || !exists {
		return err != nil, false
	}
	off, err = old.InstanceShutdownByProviderID(ctx, id)
	return true, off && err == nil
}

// A copied provider ID, and a machine that is retired: what is said of one of the Nodes would delete the other.
func TestAProviderIDThatSeveralNodesHaveIsAnError(t *testing.T) {
	for _, id := range []string{"plinth://retired", "aws:///copied"} {
		c := cloudWith(t, machinesOfEveryState, nil)
		for _, name := range []string{"retired", "stranger"} {
			if err := c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(nodeNamed(name, id)); err != nil {
				t.Fatal(err)
			}
		}
		old, _ := c.Instances()
		if exists, err := old.InstanceExistsByProviderID(t.Context(), id); err == nil || !strings.Contains(err.Error(), "retired, stranger") {
			t.Errorf("%s exists: %t, %v", id, exists, err)
		}
	}
}

// TestNoQuestionOfTheOlderKindIsAnsweredBeforeNodesAreKnown: a Node that was not listed yet would be missed.
func TestNoQuestionOfTheOlderKindIsAnsweredBeforeNodesAreKnown(t *testing.T) {
	early := New(Options{})
	unlisted := cloudWith(t, machinesOfEveryState, nil)
	if err := unlisted.index.Use(informers.NewSharedInformerFactory(nil, 0).Core().V1().Nodes().Informer()); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]*Cloud{"nothing is known": early, "Nodes were not listed": unlisted} {
		for _, q := range questions() {
			if strings.HasPrefix(q.name, "InstancesV2") || strings.HasSuffix(q.name, "AddSSHKeyToAllInstances") {
				continue
			}
			if answer, err := q.ask(c, nodeNamed("retired", "plinth://retired")); err == nil || errors.Is(err, cloudprovider.InstanceNotFound) {
				t.Errorf("%s: %s says %v, %v", what, q.name, answer, err)
			}
		}
	}
}

// TestAMachineWithoutANodeIsAnsweredFor by its name and ID: a Node may not be there yet.
func TestAMachineWithoutANodeIsAnsweredFor(t *testing.T) {
	c := cloudWith(t, strings.Replace(machinesOfEveryState, "{name: active,", "{name: active, id: SN-1, type: small, hostname: nuc.example.com,", 1), nil)
	old, _ := c.Instances()
	zones, _ := c.Zones()
	if id, err := old.InstanceID(t.Context(), "active"); id != "SN-1" || err != nil {
		t.Errorf("its ID is %q, %v", id, err)
	}
	if kind, err := old.InstanceTypeByProviderID(t.Context(), "plinth://SN-1"); kind != "small" || err != nil {
		t.Errorf("its type is %q, %v", kind, err)
	}
	if z, err := zones.GetZoneByProviderID(t.Context(), "plinth://SN-1"); z.FailureDomain != "a" || err != nil {
		t.Errorf("its zone is %q, %v", z, err)
	}
	if name, err := old.CurrentNodeName(t.Context(), "nuc.example.com"); name != "active" || err != nil {
		t.Errorf("on its host it is %q, %v", name, err)
	}
	if err := c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(nodeNamed("registered", "plinth://SN-1")); err != nil {
		t.Fatal(err)
	}
	if name, err := old.CurrentNodeName(t.Context(), "nuc.example.com"); name != "registered" || err != nil {
		t.Errorf("on its host it is %q, %v", name, err)
	}
	if exists, err := old.InstanceExistsByProviderID(t.Context(), "aws:///i-1"); !exists || err != nil {
		t.Errorf("a machine of nobody's exists: %t, %v", exists, err)
	}
}

func TestTheZoneOfThisProcessIsThatOfItsMachineOrSaysWhyNot(t *testing.T) {
	c := cloudWith(t, machinesOfEveryState, nil)
	zones, _ := c.Zones()
	t.Setenv("NODE_NAME", "maintenance")
	if z, err := zones.GetZone(t.Context()); z.FailureDomain != "a" || z.Region != "dc1" || err != nil {
		t.Errorf("%v, %v", z, err)
	}
	for name, want := range map[string]string{"nowhere": "which machine", "planned": "planned", "retired": cloudprovider.InstanceNotFound.Error()} {
		t.Setenv("NODE_NAME", name)
		if z, err := zones.GetZone(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error that says %q", name, z, err, want)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_NAME", "")
	c.inForce.Set(func() *inventory.Inventory {
		inv := *c.inForce.Get()
		inv.Racks = slices.Clone(inv.Racks)
		inv.Racks[0].Machines = slices.Clone(inv.Racks[0].Machines)
		inv.Racks[0].Machines[0].Hostname = host
		return &inv
	}())
	if z, err := zones.GetZone(t.Context()); z.FailureDomain != "a" || err != nil {
		t.Errorf("without $NODE_NAME, on %s: %v, %v", host, z, err)
	}
}

func TestTheClusterIsThatOfTheInventory(t *testing.T) {
	clusters, _ := cloudWith(t, machinesOfEveryState, nil).Clusters()
	if all, err := clusters.ListClusters(t.Context()); !slices.Equal(all, []string{"dc1"}) || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := clusters.Master(t.Context(), "dc1"); !errors.Is(err, cloudprovider.NotImplemented) {
		t.Error(err)
	}
	clusters, _ = New(Options{}).Clusters()
	if all, err := clusters.ListClusters(t.Context()); err == nil {
		t.Error(all)
	}
}
