package inventory

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const (
	oldBoard = "4c4c4544-0032-3010-8053-b7c04f585931"
	newBoard = "4c4c4544-0032-3010-8053-b7c04f585932"
)

func TestNothingOverrulesAProviderIDThatPlinthGave(t *testing.T) {
	inv := parsed(t, `racks: [{name: r01, machines: [
  {name: w1, id: SN-2, addresses: [10.1.1.1], match: {systemUUID: `+newBoard+`}},
  {name: w2, addresses: [10.1.1.2], aliases: ["k3s://w2"]}]}]`)
	for _, c := range []struct {
		what string
		node NodeIdentity
		want string // name of the machine, or a part of the error
	}{
		{"the machine itself", NodeIdentity{ProviderID: "plinth://SN-2", Name: "w1"}, "w1"},
		{"under a former name", NodeIdentity{ProviderID: "plinth://SN-2", Name: "w9"}, "w1"},
		{"an alias", NodeIdentity{ProviderID: "k3s://w2", Name: "w2"}, "w2"},
		{"a provider ID that nobody claims", NodeIdentity{ProviderID: "aws:///w2", Name: "w2"}, "w2"},
		{"left behind, by its name", NodeIdentity{ProviderID: "plinth://SN-1", Name: "w1"},
			"it has the provider ID plinth://SN-1, and machine w1 is plinth://SN-2 now"},
		{"left behind, and taken by the new machine's kubelet", NodeIdentity{ProviderID: "plinth://SN-1", SystemUUID: ReportedUUID(newBoard), Name: "w1"}, "run: kubectl delete node w1,"},
		{"left behind, and on a board that the new machine has not", NodeIdentity{ProviderID: "plinth://SN-1", SystemUUID: ReportedUUID(oldBoard), Name: "w1"}, "machine w1 is plinth://SN-2 now"},
		{"an ID that was added later", NodeIdentity{ProviderID: "plinth://w1", Name: "w1"}, "if not, set id: w1 in the inventory"},
		{"of no machine", NodeIdentity{ProviderID: "plinth://SN-1", Name: "w3"}, "of no machine of the inventory; if that machine is gone, run: kubectl delete node w3"},
		{"asked for by its provider ID alone", NodeIdentity{ProviderID: "plinth://SN-1"}, "kubectl delete node NAME"},
	} {
		m, err := inv.Identify(c.node)
		if err == nil && m.Name != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: machine %q, %v", c.what, m.Name, err)
		}
		if errors.Is(err, ErrNoMachine) {
			t.Errorf("%s: it is of Plinth's making, and said to be none of its own", c.what)
		}
	}
	if _, err := inv.Identify(NodeIdentity{Name: "w3"}); !errors.Is(err, ErrNoMachine) {
		t.Errorf("a stranger: %v", err)
	}
}

func TestEveryWayANodeDoesNotFitItsMachineNamesTheNextStep(t *testing.T) {
	for _, c := range []struct {
		what   string
		state  State
		node   NodeState
		reason MismatchReason
		step   string
	}{
		{"all is well", StateActive, NodeState{Ready: true, Volumes: 2}, "", ""},
		{"a crash", StateActive, NodeState{Volumes: 2}, "", ""},
		{"off without volumes", StateOff, NodeState{}, "", ""},
		{"off and tainted", StateOff, NodeState{OutOfService: true, Volumes: 2}, "", ""},
		{"retired, and ready", StateRetired, NodeState{Ready: true}, Unexpected, "stop the kubelet"},
		{"planned", StatePlanned, NodeState{Ready: true, NodeIPs: "192.0.2.9"}, Unexpected, "set state: active"},
		{"an address that the inventory has", StateActive, NodeState{NodeIPs: "192.0.2.1"}, "", ""},
		{"an address that it does not have", StateActive, NodeState{NodeIPs: "192.0.2.1,192.0.2.9"}, NodeIPUnknown, "the addresses 192.0.2.1"},
		{"its pod CIDRs", StateActive, NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")}}, "", ""},
		{"its pod CIDRs in the other order", StateActive, NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("fd00:244:1::/64"), netip.MustParsePrefix("10.244.1.0/24")}}, "", ""},
		{"other pod CIDRs", StateActive, NodeState{PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}}, PodCIDRDiffer, "gives machine w1 [10.244.1.0/24 fd00:244:1::/64]"},
		{"retired", StateRetired, NodeState{NodeIdentity: NodeIdentity{SystemUUID: ReportedUUID(newBoard)}, OutOfService: true}, "", ""},
		{"the same board in capitals", StateActive, NodeState{NodeIdentity: NodeIdentity{SystemUUID: ReportedUUID(strings.ToUpper(oldBoard))}, Ready: true}, "", ""},
		{"another board", StateActive, NodeState{NodeIdentity: NodeIdentity{SystemUUID: ReportedUUID(newBoard)}, Ready: true}, SystemUUIDDiffers, "match: {systemUUID: " + newBoard + "}"},
		{"a board whose number others have", StateActive, NodeState{NodeIdentity: NodeIdentity{SystemUUID: ReportedUUID(oldBoard), UUIDShared: true}, Ready: true}, SystemUUIDShared, "take match from the machine"},
		{"the Node of before it was renamed", StateActive, NodeState{NodeIdentity: NodeIdentity{SystemUUID: ReportedUUID(oldBoard), UUIDShared: true}}, "", ""},
		{"off with volumes", StateOff, NodeState{Volumes: 2}, VolumesStayAttached, "kubectl taint nodes w1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		{"tainted, and perhaps alive", StateActive, NodeState{OutOfService: true}, NotKnownToBeOff, "set state: off"},
		{"tainted in maintenance", StateMaintenance, NodeState{OutOfService: true}, NotKnownToBeOff, "set state: off"},
		{"back, and still off", StateOff, NodeState{Ready: true, OutOfService: true}, StillOff, "set state: active"},
		{"back, and still tainted", StateActive, NodeState{Ready: true, OutOfService: true}, StillOutOfService, "kubectl taint nodes w1 node.kubernetes.io/out-of-service-"},
	} {
		c.node.Name = "w1"
		found := Machine{
			Name: "w1", State: c.state, SystemUUID: ReportedUUID(oldBoard),
			Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:244:1::/64")},
		}.Mismatches(c.node)
		switch {
		case c.reason == "" && len(found) == 0:
		case len(found) != 1 || found[0].Reason != c.reason || !strings.Contains(found[0].Message, c.step):
			t.Errorf("%s: %q, want %s with %q", c.what, found, c.reason, c.step)
		case !slices.Contains(MismatchReasons, c.reason):
			t.Errorf("%s is not among all reasons", c.reason)
		}
	}
}
