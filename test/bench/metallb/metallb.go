// Package metallb builds MetalLB v0.15.2 of its Go modules, and says how it is run beside
// Plinth: in native BGP or in L2 mode, as its own manifest starts it, without what needs a chart
// (webhooks and their certificates).
package metallb

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const namespace = "metallb-system"

// The programs that Build writes into a folder.
const (
	Controller = "metallb-controller"
	Speaker    = "metallb-speaker"
)

// ControllerFlags are what its controller is started with.
func ControllerFlags(kubeconfig string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--namespace=" + namespace, "--port=7472", "--log-level=info",
		"--webhook-mode=disabled", "--disable-cert-rotation"}
}

// SpeakerPort is where the speaker of a Node shows its metrics, on the loopback.
const SpeakerPort = 7473

// SpeakerFlags are what the speaker of a Node is started with.
func SpeakerFlags(kubeconfig, node string) []string {
	return []string{"--kubeconfig=" + kubeconfig, "--namespace=" + namespace, fmt.Sprintf("--port=%d", SpeakerPort), "--log-level=info",
		"--node-name=" + node, "--pod-name=" + podOf(node), "--host=127.0.0.1", "--ml-bindaddr="}
}

// MemberFlags are what the speaker of a Node is started with where speakers keep a list of
// members, as its manifest has them do in L2 mode: at the Node's address, by the pods' labels.
func MemberFlags(kubeconfig, node string, at netip.Addr) []string {
	return append(SpeakerFlags(kubeconfig, node), "--ml-bindaddr="+at.String(), "--ml-labels="+memberLabels)
}

const memberLabels = "app=metallb,component=speaker"

// podOf is the pod that a speaker takes itself for: what it writes belongs to it.
func podOf(node string) string { return "speaker-" + node }

// Config is what it is told.
type Config struct {
	ASN      uint32 // of the machines
	Peers    []Peer // of every machine
	HoldTime time.Duration
	Pools    []string // addresses, each as a prefix or "first-last"
	Nodes    []Node
	// L2 has the pools announced on the link, and not to peers.
	L2 bool
}

// Node is one that a speaker runs on.
type Node struct {
	Name    string
	Address netip.Addr // of its speaker, where speakers keep a list of members
}

// Peer is a router.
type Peer struct {
	Name    string
	Address netip.Addr
	ASN     uint32
}

// Install applies its resources, which Build has put into a folder, and a configuration.
func Install(folder string, c Config, kubectl func(args ...string) error) error {
	crds, err := filepath.Glob(filepath.Join(folder, "crd-*.yaml"))
	if err != nil {
		return err
	}
	for _, f := range crds {
		if err := kubectl("apply", "-f", f); err != nil {
			return err
		}
	}
	if err := kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
		return err
	}
	file := filepath.Join(folder, "metallb.yaml")
	if err := os.WriteFile(file, []byte(c.manifest()), 0o600); err != nil {
		return err
	}
	if err := kubectl("apply", "-f", file); err != nil {
		return err
	}
	return c.reportPods(kubectl)
}

// reportPods says where pods are that speakers look for, in the place of kubelets.
func (c Config) reportPods(kubectl func(args ...string) error) error {
	for _, n := range c.Nodes {
		if !n.Address.IsValid() {
			continue
		}
		status := fmt.Sprintf(`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%[1]q}]}}`, n.Address)
		if err := kubectl("-n", namespace, "patch", "pod", podOf(n.Name), "--subresource=status", "--type=merge", "-p", status); err != nil {
			return err
		}
	}
	return nil
}

// manifest has pods that nobody schedules.
func (c Config) manifest() string {
	documents := []string{
		fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace),
		fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: speaker, namespace: %s}}", namespace),
	}
	resource := func(version, kind, name, spec string, args ...any) {
		documents = append(documents, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s, labels: {app: metallb, component: speaker}}\nspec: {%s}",
			version, kind, name, namespace, fmt.Sprintf(spec, args...)))
	}
	for _, node := range c.Nodes {
		resource("v1", "Pod", podOf(node.Name), "schedulerName: nobody, serviceAccountName: speaker, containers: [{name: speaker, image: speaker}]")
	}
	for _, p := range c.Peers {
		resource("metallb.io/v1beta2", "BGPPeer", p.Name, "myASN: %d, peerASN: %d, peerAddress: %s, holdTime: %s", c.ASN, p.ASN, p.Address, c.HoldTime)
	}
	resource("metallb.io/v1beta1", "IPAddressPool", "public", `addresses: ["%s"]`, strings.Join(c.Pools, `", "`))
	documents = append(documents, c.Advertisement())
	return strings.Join(documents, "\n---\n") + "\n"
}

// Advertisement has the pools announced.
func (c Config) Advertisement() string {
	kind := "BGPAdvertisement"
	if c.L2 {
		kind = "L2Advertisement"
	}
	return fmt.Sprintf("apiVersion: metallb.io/v1beta1\nkind: %s\nmetadata: {name: public, namespace: %s}\nspec: {ipAddressPools: [public]}", kind, namespace)
}
