package ipam

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"plinth.dev/plinth/lb"
)

// Annotations of a Service that are Plinth's own.
const (
	PoolAnnotation    = "plinth.dev/pool"
	IPsAnnotation     = "plinth.dev/ips"         // comma list; several of a family are several VIPs
	SharingAnnotation = "plinth.dev/sharing-key" // Services of one namespace with the same key may share a VIP
)

// The annotations that are read, first match wins; ours, then those of the balancers that people
// come from, so that a migration edits no Service.
var (
	poolAnnotations = []string{PoolAnnotation, "metallb.io/address-pool", "metallb.universe.tf/address-pool", "purelb.io/service-group"}
	ipsAnnotations  = []string{
		IPsAnnotation, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs", "lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
		kubeVIPAnnotation, "purelb.io/addresses", calicoAnnotation, "loxilb.io/staticIP",
	}
	sharingAnnotations = []string{
		SharingAnnotation, "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip", "lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key",
		"purelb.io/allow-shared-ip",
	}
)

// Annotations that are no plain list of addresses.
const (
	kubeVIPAnnotation = "kube-vip.io/loadbalancerIPs"       // 0.0.0.0: from DHCP
	calicoAnnotation  = "projectcalico.org/loadBalancerIPs" // a list of JSON
)

// maxKey bounds a sharing key, maxIPs a list of addresses, in bytes.
const (
	maxKey = 253
	maxIPs = 256
)

// poolForm matches the form of a pool's name, or nothing: any other text of a person is not disclosed.
var poolForm = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$`)

// AskOf parses the pool and the addresses that a Service asks for from its annotations and
// spec.loadBalancerIP. It also returns the sharing key. Invalid values are in Ask.Invalid, and
// nothing is guessed: an address that is spelled in a way that others might read as
// another one is refused.
func AskOf(annotations map[string]string, loadBalancerIP string) (ask Ask, sharing string) {
	pool, source := first(annotations, poolAnnotations)
	if ask.Pool = pool; !poolForm.MatchString(pool) {
		ask.Invalid = append(ask.Invalid, Denial{Reason: lb.PoolUnknown, Detail: source + " is no name of a pool"})
		ask.Pool = ""
	}
	sharing, source = first(annotations, sharingAnnotations)
	if !validKey(sharing) {
		ask.Invalid = append(ask.Invalid, Denial{Reason: lb.SharingKeyInvalid, Detail: source})
		sharing = ""
	}
	ips, source := firstIPs(annotations)
	if ips == "" {
		ips, source = strings.TrimSpace(loadBalancerIP), "spec.loadBalancerIP"
	}
	if ips != "" {
		ask.readAddrs(ips, source)
	}
	return ask, sharing
}

// first returns the first annotation that says something, and its name.
func first(annotations map[string]string, names []string) (value, name string) {
	for _, n := range names {
		if v := strings.TrimSpace(annotations[n]); v != "" {
			return v, n
		}
	}
	return "", ""
}

// firstIPs is first for addresses.
func firstIPs(annotations map[string]string) (list, name string) {
	for _, name := range ipsAnnotations {
		list := strings.TrimSpace(annotations[name])
		if name == calicoAnnotation && list != "" {
			list = plainList(list)
		}
		if list != "" && !wantsDHCP(name, list) {
			return list, name
		}
	}
	return "", ""
}

// plainList turns a list of JSON, with an address an item, into one with commas. What is none
// stays no list of addresses.
func plainList(list string) string {
	var all []string
	err := json.Unmarshal([]byte(list), &all)
	if err != nil || slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, ",") }) {
		return "not JSON"
	}
	return strings.Join(all, ",")
}

func validKey(k string) bool {
	return len(k) <= maxKey && strings.IndexFunc(k, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func (ask *Ask) readAddrs(list, source string) {
	if len(list) > maxIPs {
		ask.invalid(netip.Addr{}, source+" is too long")
		return
	}
	for _, s := range strings.Split(list, ",") {
		s = strings.TrimSpace(s)
		addr, err := netip.ParseAddr(s)
		if err != nil {
			ask.invalid(netip.Addr{}, source+" is not a list of addresses")
			return
		}
		if why := unfit(addr); why != "" {
			ask.invalid(addr, why)
			return
		}
		if slices.Contains(ask.Addrs, addr) {
			ask.invalid(addr, "it is asked for twice")
			return
		}
		ask.Addrs = append(ask.Addrs, addr)
	}
}

func (ask *Ask) invalid(a netip.Addr, why string) {
	ask.Addrs = nil
	ask.Invalid = append(ask.Invalid, Denial{Reason: lb.AddressInvalid, Address: a, Detail: why})
}

// unfit returns the reason why an address cannot be a VIP; empty: it can.
func unfit(addr netip.Addr) string {
	switch {
	case addr.Is4In6():
		return "an IPv4 address in IPv6 form; write it as " + addr.Unmap().String()
	case addr.Zone() != "":
		return "it has a zone"
	}
	for _, r := range never {
		if r.Contains(addr) {
			return "it lies in " + r.String()
		}
	}
	return ""
}
