package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/inventory"
)

const (
	uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdownTaint      = "node.cloudprovider.kubernetes.io/shutdown"
)

func (n Node) tainted(key string) bool { return slices.Contains(n.Taints, key) }

// cloudFlag returns the step by which a kubelet asks for a cloud provider, by its distribution.
func (n Node) cloudFlag() []Mend {
	now := kubectl("", "taint", "node", Quoted(n.Name), uninitializedTaint+"=true:NoSchedule") // a kubelet gives it to a new Node alone
	until := say("the taint keeps new pods from the Node until Plinth runs and takes it off: give it when Plinth is there, Node by Node")
	for _, distribution := range []string{"k3s", "rke2"} {
		if strings.Contains(n.Kubelet, "+"+distribution) {
			return []Mend{rancher(distribution, "kubelet-arg+: [cloud-provider=external]", n.Name), until, now}
		}
	}
	return []Mend{say("other distributions than kubeadm's have their own way: docs/guides/distributions.md"),
		runOn(n.Name, `grep -q cloud-provider= /var/lib/kubelet/kubeadm-flags.env || sed -i 's/^KUBELET_KUBEADM_ARGS="/&--cloud-provider=external /' /var/lib/kubelet/kubeadm-flags.env; systemctl restart kubelet`), until, now}
}

// unit returns the systemd unit of a Node's kubelet, by its distribution: a pattern where servers and agents differ.
func (n Node) unit() string {
	switch {
	case strings.Contains(n.Kubelet, "+k3s"):
		return "'k3s*'"
	case strings.Contains(n.Kubelet, "+rke2"):
		return "'rke2-*'"
	}
	return "kubelet"
}

var cniMissing = eachNode(func(_ Cluster, n Node) []Finding {
	if !n.NoCNI {
		return nil
	}
	return []Finding{onNode(n, []Mend{say("install a CNI, or give Plinth the pods' routes by podNetwork in the inventory: docs/guides/pod-networks.md")},
		"the container runtime has no pod network")}
})

var nodeNotReady = eachNode(func(_ Cluster, n Node) []Finding {
	if n.Ready || n.NoCNI {
		return nil
	}
	return []Finding{onNode(n, []Mend{runOn(n.Name, "systemctl restart "+n.unit()), runOn(n.Name, "journalctl -u "+n.unit()+" --since -5min")}, "its kubelet is not ready, or is silent")}
})

// leads reports whether a controller of Plinth's renews its lease.
func (c Cluster) leads() bool {
	return slices.ContainsFunc(c.Leases, func(l Lease) bool { return l.Namespace == c.Namespace && c.isOwn(l) && l.held(c.Now) })
}

var nodeUninitialized = eachNode(func(c Cluster, n Node) []Finding {
	_, err := c.machine(n)
	switch {
	case !n.tainted(uninitializedTaint), c.Inventory != nil && err != nil: // of the latter another finding tells
		return nil
	case c.leads() && c.Inventory != nil:
		return []Finding{onNode(n, []Mend{run("plinth why node/" + Quoted(n.Name))}, "it waits for a cloud provider, though a controller of Plinth's leads that knows its machine")}
	}
	return []Finding{onNode(n, []Mend{run("plinth init"), say("then install Plinth, which takes the taint off: docs/guides/quick-start.md")}, "it waits for a cloud provider, and none runs: pods that do not tolerate the taint wait with it")}
})

var kubeletWithoutCloud = eachNode(func(_ Cluster, n Node) []Finding {
	if n.ProviderID != "" || n.tainted(uninitializedTaint) {
		return nil
	}
	return []Finding{onNode(n, n.cloudFlag(), "it has no provider ID and waits for none: its kubelet runs without --cloud-provider=external")}
})

// machine is the machine that a Node is.
func (c Cluster) machine(n Node) (inventory.Machine, error) {
	if c.Inventory == nil {
		return inventory.Machine{}, inventory.ErrNoMachine
	}
	uuid, _ := inventory.ParseUUID(n.SystemUUID)
	return c.Inventory.Identify(inventory.NodeIdentity{Name: n.Name, ProviderID: n.ProviderID, SystemUUID: uuid})
}

// foreignID is a provider ID that is none of Plinth's.
func (n Node) foreignID() bool {
	return n.ProviderID != "" && !strings.HasPrefix(n.ProviderID, inventory.ProviderScheme+"://")
}

var noMachine = eachNode(func(c Cluster, n Node) []Finding {
	m, err := c.machine(n)
	switch {
	case c.Inventory == nil, err == nil:
		return nil
	case inventory.WhyNoMachine(err) != inventory.NoMachine:
		return []Finding{onNode(n, []Mend{run("plinth why node/" + Quoted(n.Name))}, "%v", err)}
	case m.Name != "":
		return nil
	}
	return []Finding{onNode(n, []Mend{run("plinth import nodes cluster"), say("which writes the Node down as a machine: take it into the inventory")}, "%v", err)}
})

var providerIDOfOther = eachNode(func(c Cluster, n Node) []Finding {
	if c.Inventory == nil || !n.foreignID() {
		return nil
	}
	m, found := c.Inventory.Machine(n.Name)
	if !found || slices.Contains(m.Aliases, n.ProviderID) {
		return nil
	}
	return []Finding{onNode(n, []Mend{say(fmt.Sprintf("add it to machine %s in the inventory: aliases: [%q]", m.Name, n.ProviderID))}, "it has the provider ID %s, which stays for ever", n.ProviderID)}
})

var nodeIPUnknown = eachNode(func(c Cluster, n Node) (out []Finding) {
	m, err := c.machine(n)
	if err != nil {
		return nil
	}
	for _, mismatch := range m.Mismatches(inventory.NodeState{NodeIdentity: inventory.NodeIdentity{Name: n.Name}, NodeIPs: n.NodeIPs}) {
		if mismatch.Reason == inventory.NodeIPUnknown {
			out = append(out, onNode(n, []Mend{say("give machine " + m.Name + " the address " + n.NodeIPs + " in the inventory, or the kubelet another --node-ip")}, "%s", mismatch.Message))
		}
	}
	return out
})

func untaint(n Node, key string) []Mend {
	return []Mend{kubectl("", "taint", "node", Quoted(n.Name), key+"-")}
}

var nodeShutdownTaint = eachNode(func(_ Cluster, n Node) []Finding {
	if !n.Ready || !n.tainted(shutdownTaint) {
		return nil
	}
	return []Finding{onNode(n, untaint(n, shutdownTaint), "it is ready, and bears the taint of a machine that is shut down")}
})

var stillOutOfService = eachNode(func(_ Cluster, n Node) []Finding {
	if !n.Ready || !n.tainted(inventory.OutOfServiceTaint) {
		return nil
	}
	return []Finding{onNode(n, untaint(n, inventory.OutOfServiceTaint), "it is ready, and bears the taint of a machine without power")}
})

var networkUnavailable = eachNode(func(c Cluster, n Node) []Finding {
	if !n.Ready || !n.NoRoutes || c.Inventory != nil && c.Inventory.PodNetwork.Mode != inventory.ModeNone {
		return nil // with a pod network of Plinth's the condition is its own
	}
	return []Finding{onNode(n, []Mend{kubectl("", "patch", "node", Quoted(n.Name), `--subresource=status --type=strategic -p '{"status":{"conditions":[{"type":"NetworkUnavailable","$patch":"delete"}]}}'`)},
		"its condition NetworkUnavailable is of a route controller that does not run any more")}
})

func nodeExcluded(c Cluster) (out []Finding) {
	spare := slices.ContainsFunc(c.Nodes, func(n Node) bool { return !n.Excluded })
	for _, n := range c.Nodes {
		if n.Excluded && (!n.ControlPlane || !spare) {
			out = append(out, onNode(n, []Mend{kubectl("", "label", "node", Quoted(n.Name), v1.LabelNodeExcludeBalancers+"-")},
				"it bears the label %s, so that its machine announces no VIP", v1.LabelNodeExcludeBalancers))
		}
	}
	return out
}

// Bounds of clocks. A kubelet renews its lease every 10 s and is told to be silent after 40 s, so that the lease of one that is ready is as old as
// that at most.
const (
	clockAhead  = 2 * time.Second
	clockBehind = 60 * time.Second
)

var clockDiffers = eachNode(func(c Cluster, n Node) []Finding {
	if n.Renewed.IsZero() || c.Now.IsZero() || !n.Ready {
		return nil
	}
	off := n.Renewed.Sub(c.Now)
	way := "ahead of"
	switch {
	case off < -clockBehind:
		off, way = -off, "behind"
	case off < clockAhead:
		return nil
	}
	return []Finding{onNode(n, []Mend{runOn(n.Name, "timedatectl set-ntp true"), runOn(n.Name, "timedatectl timesync-status")}, "its clock is %s %s the API server's", off.Round(time.Second), way)}
})

// version is major and minor of a version of Kubernetes; false: it is none.
func version(text string) (minor int, known bool) {
	var major int
	n, _ := fmt.Sscanf(text, "v%d.%d", &major, &minor)
	return minor, n == 2 && major == 1
}

// Bounds of versions: what the README has, and what Kubernetes' own policy on version skew says.
const (
	oldestMinor   = 33
	kubeletBehind = 3
)

func kubernetesTooOld(c Cluster) []Finding {
	if minor, known := version(c.Server); !known || minor >= oldestMinor {
		return nil
	}
	return []Finding{found("api server", "it is of version "+c.Server, say(fmt.Sprintf("upgrade the cluster to Kubernetes 1.%d or later, a minor version at a time", oldestMinor)))}
}

var kubeletVersionSkew = eachNode(func(c Cluster, n Node) []Finding {
	server, known := version(c.Server)
	kubelet, said := version(n.Kubelet)
	if !known || !said || kubelet <= server && server-kubelet <= kubeletBehind {
		return nil
	}
	mend := []Mend{say("upgrade the kubelet of " + n.Name + " to " + c.Server)}
	if kubelet > server {
		mend = []Mend{say(fmt.Sprintf("upgrade the control plane to 1.%d first", kubelet))}
	}
	return []Finding{onNode(n, mend, "its kubelet is of version %s, the API server of %s", n.Kubelet, c.Server)}
})

// holdsAddress reports whether one of a Node's addresses is in a block.
func (n Node) holdsAddress(p netip.Prefix) bool { return slices.ContainsFunc(n.Addresses, p.Contains) }
