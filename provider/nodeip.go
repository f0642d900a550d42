package provider

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cloud-provider/api"

	"plinth.dev/plinth/inventory"
)

// reasonNodeIPUnknown means that a kubelet was given a --node-ip that the
// inventory does not have: the stock controller then leaves the Node tainted.
const reasonNodeIPUnknown = "NodeIPUnknown"

// checkNodeIPs reports addresses of kubelet's --node-ip that the machine does not have.
func (c *Cloud) checkNodeIPs(node *v1.Node, m inventory.Machine) {
	given := node.Annotations[api.AnnotationAlphaProvidedIPAddr]
	if given == "" || len(unknownIPs(given, m)) == 0 {
		c.reports.Clear(node, reasonNodeIPUnknown)
		return
	}
	c.reports.Warn(node, reasonNodeIPUnknown, fmt.Sprintf(
		"the kubelet runs with --node-ip=%s, the inventory gives machine %s the addresses %s", given, m.Name, givenIPs(m)))
}

// unknownIPs returns those of a comma list of addresses that the machine does not have.
func unknownIPs(given string, m inventory.Machine) []string {
	known := slices.Concat(m.Addresses, m.ExternalAddresses)
	var out []string
	for s := range strings.SplitSeq(given, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(s))
		if err != nil || !slices.Contains(known, a.Unmap()) {
			out = append(out, s)
		}
	}
	return out
}

func givenIPs(m inventory.Machine) string {
	var all []string
	for _, a := range addresses(m) {
		if a.Type != v1.NodeHostName {
			all = append(all, a.Address)
		}
	}
	return strings.Join(all, ",")
}
