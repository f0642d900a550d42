package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Ignored is an annotation of another balancer that a Service has and Plinth does not
// honour.
type Ignored struct {
	Annotation string
	Why        string
}

// String prints it for an operator.
func (i Ignored) String() string { return fmt.Sprintf("%s: %s", i.Annotation, i.Why) }

const (
	noDHCP        = "there is no DHCP here: the Service gets an address of a pool. plinth.dev/ips asks for a certain one"
	oneNamespace  = "Services share a VIP within one namespace"
	otherPools    = "it names pools of another program; plinth.dev/pool names one of the inventory"
	everySession  = "a VIP is announced over each session that its pool's advertise allows"
	kubeProxy     = "kube-proxy balances and watches the endpoints here"
	noCounterpart = "Plinth has nothing that does this"
)

// unhonoured maps the known annotations of other balancers that are ignored to the reason.
var unhonoured = map[string]string{
	"io.cilium/lb-ipam-sharing-cross-namespace": oneNamespace,
	"lbipam.cilium.io/sharing-cross-namespace":  oneNamespace,
	"kube-vip.io/hwaddr":                        noDHCP,
	"kube-vip.io/requestedIP":                   noDHCP,
	"kube-vip.io/ignore":                        "to keep a Service from Plinth, give it a loadBalancerClass of another program",
	"kube-vip.io/loadbalancerHostname":          "the status has addresses, and no names",
	"kube-vip.io/serviceInterface":              everySession,
	"loxilb.io/epselect":                        kubeProxy,
	"loxilb.io/lbmode":                          kubeProxy,
	"loxilb.io/liveness":                        kubeProxy,
	"loxilb.io/poolSelect":                      otherPools,
	"loxilb.io/poolSelectSecondary":             otherPools,
	"loxilb.io/secondaryIPs":                    "a Service has one VIP of each family; plinth.dev/ips asks for them",
	"projectcalico.org/ipv4pools":               otherPools,
	"projectcalico.org/ipv6pools":               otherPools,
}

// balancers are the prefixes under which there is nothing but what a balancer reads of
// Services. Calico's and the rest of Cilium's have other uses.
var balancers = []string{"io.cilium/lb-ipam-", "kube-vip.io/", "lbipam.cilium.io/", "loxilb.io/", "metallb.io/", "metallb.universe.tf/", "purelb.io/"}

// written are annotations that balancers write themselves: no wishes.
var written = []string{
	"kube-vip.io/active-endpoint", "kube-vip.io/vipHost", "metallb.io/ip-allocated-from-pool", "metallb.universe.tf/ip-allocated-from-pool",
	"purelb.io/allocated-", "purelb.io/announcing",
}

// IgnoredAnnotations lists the annotations of other balancers that do not count, sorted by
// name. That one outweighs another of the same meaning is no reason to be here.
func IgnoredAnnotations(annotations map[string]string) []Ignored {
	var out []Ignored
	for name, value := range annotations {
		if why := whyIgnored(name, value); why != "" {
			out = append(out, Ignored{name, why})
		}
	}
	slices.SortFunc(out, func(a, b Ignored) int { return cmp.Compare(a.Annotation, b.Annotation) })
	return out
}

func whyIgnored(name, value string) string {
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch why, known := unhonoured[name]; {
	case known:
		return why
	case wantsDHCP(name, value):
		return noDHCP
	case honoured(name), !slices.ContainsFunc(balancers, begins), slices.ContainsFunc(written, begins):
		return ""
	}
	return noCounterpart
}

func honoured(name string) bool {
	return slices.Contains(poolAnnotations, name) || slices.Contains(ipsAnnotations, name) || slices.Contains(sharingAnnotations, name)
}

// wantsDHCP reports whether kube-vip would ask DHCP for the address.
func wantsDHCP(name, value string) bool {
	if name != kubeVIPAnnotation {
		return false
	}
	for _, s := range strings.Split(value, ",") {
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err != nil || !a.IsUnspecified() {
			return false
		}
	}
	return true
}
