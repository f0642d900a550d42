package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

func TestNodesAreInitialisedFromTheInventory(t *testing.T) {
	l := story.Shared(t)
	for _, rack := range l.Topology.Racks {
		for _, m := range rack.Machines {
			must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
				n, err := l.Node(ctx, m.Name)
				if err != nil {
					return err
				}
				return isInitialised(l, rack, n)
			}))
		}
	}
}

// isInitialised returns what of a Node is not as the inventory has it. Addresses come a moment after labels, and the taint of a Node that was not
// ready goes some seconds later.
func isInitialised(l *lab.Lab, rack lab.Rack, n *corev1.Node) error {
	var wrong []error
	for key, want := range map[string]string{
		"topology.kubernetes.io/region":            l.Topology.Name,
		"failure-domain.beta.kubernetes.io/region": l.Topology.Name,
		"topology.kubernetes.io/zone":              rack.Zone,
		"failure-domain.beta.kubernetes.io/zone":   rack.Zone,
		"node.kubernetes.io/instance-type":         "lab-small",
		"beta.kubernetes.io/instance-type":         "lab-small",
		"plinth.dev/rack":                          rack.Name,
		"plinth.dev/row":                           "a",
	} {
		if have := n.Labels[key]; have != want {
			wrong = append(wrong, fmt.Errorf("node %s: label %s is %q, want %q", n.Name, key, have, want))
		}
	}
	if have, want := n.Spec.ProviderID, "plinth://"+n.Name; have != want {
		wrong = append(wrong, fmt.Errorf("node %s: providerID %q, want %q", n.Name, have, want))
	}
	if len(n.Spec.Taints) > 0 {
		wrong = append(wrong, fmt.Errorf("node %s: still has taints %v", n.Name, n.Spec.Taints))
	}
	if len(n.Spec.PodCIDRs) != 2 {
		wrong = append(wrong, fmt.Errorf("node %s: podCIDRs %v, want one per family", n.Name, n.Spec.PodCIDRs))
	}
	at := l.Topology.MachineAddress(n.Name)
	if have, want := internal(n), []string{at.V4.String(), at.V6.String()}; !slices.Equal(have, want) {
		wrong = append(wrong, fmt.Errorf("node %s: internal addresses %v, want %v", n.Name, have, want))
	}
	return errors.Join(wrong...)
}

func internal(n *corev1.Node) []string {
	var list []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			list = append(list, a.Address)
		}
	}
	return list
}

func TestEveryAgentSaysThatItsFabricIsReady(t *testing.T) {
	l := story.Shared(t)
	must(t, l.WaitFabric(t.Context()))
	for _, m := range l.Topology.Machines() {
		n, err := l.Node(t.Context(), m.Name)
		must(t, err)
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Status != corev1.ConditionFalse {
				t.Errorf("node %s: %s is %s", n.Name, c.Type, c.Status)
			}
		}
	}
}
