package inventory_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/inventorytest"
)

const (
	oldBoard = "4c4c4544-0032-3010-8053-b7c04f585931"
	newBoard = "4c4c4544-0032-3010-8053-b7c04f585932"
)

func TestNothingOverrulesAProviderIDThatPlinthGave(t *testing.T) {
	inv := inventorytest.Parsed(t, `racks: [{name: r01, machines: [
  {name: w1, id: SN-2, addresses: [10.1.1.1], match: {systemUUID: `+newBoard+`}},
  {name: w2, addresses: [10.1.1.2], aliases: ["k3s://w2"]}]}]`)
	for _, c := range []struct {
		what string
		node inventory.NodeIdentity
		want string // name of the machine, or a part of the error
	}{
		{"the machine itself", inventory.NodeIdentity{ProviderID: "plinth://SN-2", Name: "w1"}, "w1"},
		{"under a former name", inventory.NodeIdentity{ProviderID: "plinth://SN-2", Name: "w9"}, "w1"},
		{"an alias", inventory.NodeIdentity{ProviderID: "k3s://w2", Name: "w2"}, "w2"},
		{"a provider ID that nobody claims", inventory.NodeIdentity{ProviderID: "aws:///w2", Name: "w2"}, "w2"},
		{"left behind, by its name", inventory.NodeIdentity{ProviderID: "plinth://SN-1", Name: "w1"},
			"it has the provider ID plinth://SN-1, and machine w1 is plinth://SN-2 now"},
		{"left behind, and taken by the new machine's kubelet", inventory.NodeIdentity{ProviderID: "plinth://SN-1", SystemUUID: inventory.ReportedUUID(newBoard), Name: "w1"}, "run: kubectl delete node w1,"},
		{"left behind, and on a board that the new machine has not", inventory.NodeIdentity{ProviderID: "plinth://SN-1", SystemUUID: inventory.ReportedUUID(oldBoard), Name: "w1"}, "machine w1 is plinth://SN-2 now"},
		{"an ID that was added later", inventory.NodeIdentity{ProviderID: "plinth://w1", Name: "w1"}, "if not, set id: w1 in the inventory"},
		{"of no machine", inventory.NodeIdentity{ProviderID: "plinth://SN-1", Name: "w3"}, "of no machine of the inventory; if that machine is gone, run: kubectl delete node w3"},
		{"asked for by its provider ID alone", inventory.NodeIdentity{ProviderID: "plinth://SN-1"}, "kubectl delete node NAME"},
	} {
		m, err := inv.Identify(c.node)
		if err == nil && m.Name != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: machine %q, %v", c.what, m.Name, err)
		}
		if errors.Is(err, inventory.ErrNoMachine) {
			t.Errorf("%s: it is of Plinth's making, and said to be none of its own", c.what)
		}
	}
	if _, err := inv.Identify(inventory.NodeIdentity{Name: "w3"}); !errors.Is(err, inventory.ErrNoMachine) {
		t.Errorf("a stranger: %v", err)
	}
}

func TestEveryWayANodeDoesNotFitItsMachineNamesTheNextStep(t *testing.T) {
	for _, c := range []struct {
		what   string
		state  inventory.State
		node   inventory.NodeState
		reason inventory.MismatchReason
		step   string
	}{
		{"all is well", inventory.StateActive, inventory.NodeState{Ready: true, Volumes: 2}, "", ""},
		{"a crash", inventory.StateActive, inventory.NodeState{Volumes: 2}, "", ""},
		{"off without volumes", inventory.StateOff, inventory.NodeState{}, "", ""},
		{"off and tainted", inventory.StateOff, inventory.NodeState{OutOfService: true, Volumes: 2}, "", ""},
		{"retired, and ready", inventory.StateRetired, inventory.NodeState{Ready: true}, inventory.Unexpected, "stop the kubelet"},
		{"planned", inventory.StatePlanned, inventory.NodeState{Ready: true, NodeIPs: "192.0.2.9"}, inventory.Unexpected, "set state: active"},
		{"an address that the inventory has", inventory.StateActive, inventory.NodeState{NodeIPs: "192.0.2.1"}, "", ""},
		{"an address that it does not have", inventory.StateActive, inventory.NodeState{NodeIPs: "192.0.2.1,192.0.2.9"}, inventory.NodeIPUnknown, "the addresses 192.0.2.1"},
		{"its pod CIDRs", inventory.StateActive, inventory.NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")}}, "", ""},
		{"its pod CIDRs in the other order", inventory.StateActive, inventory.NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("fd00:244:1::/64"), netip.MustParsePrefix("10.244.1.0/24")}}, "", ""},
		{"other pod CIDRs", inventory.StateActive, inventory.NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}}, inventory.PodCIDRDiffer, "gives machine w1 [10.244.1.0/24 fd00:244:1::/64]"},
		{"retired", inventory.StateRetired, inventory.NodeState{NodeIdentity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(newBoard)}, OutOfService: true}, "", ""},
		{"the same board in capitals", inventory.StateActive, inventory.NodeState{NodeIdentity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(strings.ToUpper(oldBoard))}, Ready: true}, "", ""},
		{"another board", inventory.StateActive, inventory.NodeState{NodeIdentity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(newBoard)}, Ready: true}, inventory.SystemUUIDDiffers, "match: {systemUUID: " + newBoard + "}"},
		{"a board whose number others have", inventory.StateActive, inventory.NodeState{NodeIdentity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(oldBoard), UUIDShared: true}, Ready: true}, inventory.SystemUUIDShared, "take match from the machine"},
		{"the Node of before it was renamed", inventory.StateActive, inventory.NodeState{NodeIdentity: inventory.NodeIdentity{SystemUUID: inventory.ReportedUUID(oldBoard), UUIDShared: true}}, "", ""},
		{"off with volumes", inventory.StateOff, inventory.NodeState{Volumes: 2}, inventory.VolumesStayAttached, "kubectl taint nodes w1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		{"tainted, and perhaps alive", inventory.StateActive, inventory.NodeState{OutOfService: true}, inventory.NotKnownToBeOff, "set state: off"},
		{"tainted in maintenance", inventory.StateMaintenance, inventory.NodeState{OutOfService: true}, inventory.NotKnownToBeOff, "set state: off"},
		{"back, and still off", inventory.StateOff, inventory.NodeState{Ready: true, OutOfService: true}, inventory.StillOff, "set state: active"},
		{"back, and still tainted", inventory.StateActive, inventory.NodeState{Ready: true, OutOfService: true}, inventory.StillOutOfService, "kubectl taint nodes w1 node.kubernetes.io/out-of-service-"},
	} {
		c.node.Name = "w1"
		found := inventory.Machine{
			Name: "w1", State: c.state, SystemUUID: inventory.ReportedUUID(oldBoard),
			Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")},
		}.Mismatches(c.node)
		switch {
		case c.reason == "" && len(found) == 0:
		case len(found) != 1 || found[0].Reason != c.reason || !strings.Contains(found[0].Message, c.step):
			t.Errorf("%s: %q, want %s with %q", c.what, found, c.reason, c.step)
		case !slices.Contains(inventory.MismatchReasons, c.reason):
			t.Errorf("%s is not among all reasons", c.reason)
		}
	}
}
