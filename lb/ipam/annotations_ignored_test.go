package ipam

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsNotHonouredIsNamedWithAReason(t *testing.T) {
	for annotation, value := range map[string]string{
		"kube-vip.io/loadbalancerIPs":               "0.0.0.0", // kube-vip then asks DHCP
		"kube-vip.io/loadbalancerHostname":          "web.example.com",
		"kube-vip.io/serviceInterface":              "eth1",
		"kube-vip.io/ignore":                        "true",
		"lbipam.cilium.io/sharing-cross-namespace":  "*",
		"io.cilium/lb-ipam-sharing-cross-namespace": "*",
		"projectcalico.org/ipv4pools":               `["lan"]`,
		"projectcalico.org/ipv6pools":               `["lan6"]`,
		"loxilb.io/lbmode":                          "onearm",
		"loxilb.io/poolSelect":                      "second",
		"metallb.io/loadBalancerIP":                 "192.0.2.1", // a letter too few
		"purelb.io/no-such-thing":                   "x",
	} {
		got := IgnoredAnnotations(map[string]string{annotation: value, "metallb.io/address-pool": "public", "example.com/x": "y"})
		if len(got) != 1 || got[0].Annotation != annotation || len(got[0].Why) < 10 {
			t.Errorf("%s: got %v", annotation, got)
		}
	}
}

// All that the reference says is understood, and what other balancers write themselves.
func TestWhatIsHonouredOrWrittenByOthersIsNotIgnored(t *testing.T) {
	all := map[string]string{}
	for _, name := range slices.Concat(poolAnnotations, ipsAnnotations, sharingAnnotations) {
		all[name] = "192.0.2.1"
	}
	for _, name := range []string{"metallb.io/ip-allocated-from-pool", "kube-vip.io/vipHost", "purelb.io/allocated-by", "purelb.io/announcing-IPv4",
		"service.cilium.io/affinity", "projectcalico.org/metadata", "kubectl.kubernetes.io/last-applied-configuration"} {
		all[name] = "x"
	}
	if got := IgnoredAnnotations(all); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestIgnoredAnnotationsAreSorted(t *testing.T) {
	all := map[string]string{"loxilb.io/lbmode": "onearm", "kube-vip.io/ignore": "true", "lbipam.cilium.io/sharing-cross-namespace": "*"}
	var names []string
	for _, i := range IgnoredAnnotations(all) {
		names = append(names, i.Annotation)
	}
	if want := slices.Sorted(maps.Keys(all)); !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

// Whoever asks for an address by DHCP asks for any: the next wish counts, or none.
func TestAWishForDHCPIsNoWishForAnAddress(t *testing.T) {
	for _, value := range []string{"0.0.0.0", " 0.0.0.0 ", "::", "0.0.0.0,::"} {
		if ask := asked(map[string]string{"kube-vip.io/loadbalancerIPs": value}, ""); len(ask.Addrs) > 0 || len(ask.Invalid) > 0 {
			t.Errorf("%q: %+v", value, ask)
		}
		if ask := asked(map[string]string{"kube-vip.io/loadbalancerIPs": value}, "192.0.2.9"); list(ask.Addrs) != "192.0.2.9" {
			t.Errorf("%q and spec.loadBalancerIP: %+v", value, ask)
		}
	}
	if ask := asked(map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0,192.0.2.1"}, ""); len(ask.Invalid) == 0 {
		t.Errorf("DHCP and an address of one family at once: %+v", ask)
	}
	if ask := asked(map[string]string{"metallb.io/loadBalancerIPs": "0.0.0.0"}, ""); len(ask.Invalid) == 0 {
		t.Errorf("MetalLB knows no DHCP: %+v", ask)
	}
}

func TestTheReferenceListsAllThatIsUnderstood(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/services.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, names := range [][]string{poolAnnotations, ipsAnnotations, sharingAnnotations} {
		at := 0
		for _, name := range names {
			i := strings.Index(page[at:], "`"+name+"`")
			if i < 0 {
				t.Errorf("docs/reference/services.md does not have %s, or not in its order", name)
				break
			}
			at += i
		}
	}
}
