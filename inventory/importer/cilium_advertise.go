package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

type ciliumAdvertisementSpec struct {
	Advertisements []ciliumAdvertisement `json:"advertisements"`
}

type ciliumAdvertisement struct {
	AdvertisementType string                `json:"advertisementType"`
	Selector          *metav1.LabelSelector `json:"selector"`
	Service           struct {
		Addresses []string `json:"addresses"`
		Length4   int      `json:"aggregationLengthIPv4"`
		Length6   int      `json:"aggregationLengthIPv6"`
	} `json:"service"`
	Attributes struct {
		LocalPreference uint32 `json:"localPreference"`
		Communities     struct {
			Standard  []string `json:"standard"`
			WellKnown []string `json:"wellKnown"`
			Large     []string `json:"large"`
		} `json:"communities"`
	} `json:"attributes"`
}

// ciliumNotCarried are the types of advertisements that are not of Services.
var ciliumNotCarried = map[string]string{
	"PodCIDR":         "pod CIDRs of Nodes are announced where podNetwork.mode is fabric, or with advertise: {podCIDRs: true}. Look first whether Cilium's pod CIDRs are those of the Nodes (spec.podCIDRs)",
	"CiliumPodIPPool": "Plinth announces pod CIDRs of Nodes, and no other addresses of pods: where routers need those, Cilium has to go on announcing them",
	"Interface":       "Plinth announces no addresses of interfaces",
}

// advertise gives all pools what advertisements of Services say, and reports whether any does.
func (r *ciliumReader) advertise() (any bool) {
	all := decodeAll[ciliumAdvertisementSpec](r, "CiliumBGPAdvertisement")
	r.tellFamilies(all)
	for _, a := range all {
		to := r.tellsWhom(a.value.Metadata.Labels)
		for i, one := range a.value.Spec.Advertisements {
			any = r.advertiseOne(a.object, fmt.Sprintf("spec.advertisements[%d]", i), one, to) || any
		}
	}
	return any
}

// tellFamilies notes configurations of peers that announce other things of IPv4 than of IPv6: in an inventory an advertisement is of both.
func (r *ciliumReader) tellFamilies(all []ciliumDecoded[ciliumAdvertisementSpec]) {
	for _, config := range r.configs {
		if len(config.routers) == 0 {
			continue
		}
		first, ofFirst := "", ""
		for i, family := range config.spec.Families {
			if !family.carriesVIPs() {
				continue
			}
			chosen := family.chooses(all)
			if first == "" {
				first, ofFirst = family.AFI, chosen
			}
			if chosen != ofFirst {
				path := fmt.Sprintf("spec.families[%d]", i)
				config.object.mark(noted, path+".advertisements")
				r.note(config.object, path, Differs, fmt.Sprintf("%s has the advertisements %s, and %s %s: in the inventory each is of both families. A pool of each family, with its own advertise, keeps them apart", family.AFI, chosen, first, ofFirst))
			}
		}
	}
}

// carriesVIPs reports whether a family is one that a session of an inventory carries.
func (f ciliumFamily) carriesVIPs() bool {
	return f.SAFI == "unicast" && (f.AFI == "ipv4" || f.AFI == "ipv6")
}

// chooses are the names of the advertisements of a family.
func (f ciliumFamily) chooses(all []ciliumDecoded[ciliumAdvertisementSpec]) string {
	var names []string
	for _, a := range all {
		if f.Advertisements != nil && selector(*f.Advertisements).Matches(a.value.Metadata.Labels) {
			names = append(names, a.object.name)
		}
	}
	slices.Sort(names)
	return cmp.Or(inWords(names), "none")
}

// audience is the set of routers that an advertisement is sent to.
type audience struct {
	chosen  bool     // a configuration of peers chooses it
	routers []string // sorted; none: all
}

// tellsWhom are the routers whose configuration chooses an advertisement with some labels. Where such a configuration has no router that could be
// carried over, routers have to be written by hand, and then all are told.
func (r *ciliumReader) tellsWhom(labels map[string]string) (to audience) {
	all := false
	for _, c := range r.configs {
		for _, f := range c.spec.Families {
			if f.Advertisements != nil && selector(*f.Advertisements).Matches(labels) {
				to.chosen, all = true, all || len(c.routers) == 0
				to.routers = addEach(to.routers, c.routers)
			}
		}
	}
	if all || len(to.routers) == len(r.inv.Routers) {
		to.routers = nil
	}
	slices.Sort(to.routers)
	return to
}

// advertiseOne carries one entry over; false: it is of no VIPs.
func (r *ciliumReader) advertiseOne(object *object, path string, advertisement ciliumAdvertisement, to audience) bool {
	if code, message := r.obstacle(advertisement, to); message != "" {
		r.overrideAndNote(object, path, code, message)
		return false
	}
	object.mark(carried, path)
	for i, kind := range advertisement.Service.Addresses {
		if kind != "LoadBalancerIP" {
			r.drop(object, fmt.Sprintf("%s.service.addresses[%d]", path, i), kind+": Plinth announces VIPs of load balancers alone")
		}
	}
	one := newAdvertise()
	one.Routers = to.routers
	one.Selector = r.announced(object, path+".selector", advertisement.Selector)
	if n := advertisement.Service.Length4; n > 0 {
		one.Aggregate.IPv4 = n
	}
	if n := advertisement.Service.Length6; n > 0 {
		one.Aggregate.IPv6 = n
	}
	one.LocalPref = localPref(advertisement.Attributes.LocalPreference)
	one.Communities = r.communities(object, path+".attributes.communities", advertisement)
	r.tellPreference(object, path, one)
	for i := range r.pools {
		p := &r.pools[i].pool
		r.comment("spec.pools["+p.Name+"]", object)
		p.Advertise = append(p.Advertise, one)
	}
	r.says = append(r.says, &statement{object: object, path: path})
	return true
}

// tellPreference notes where another advertisement of the same Services has another local preference for the same routers: the higher one is taken.
func (r *ciliumReader) tellPreference(object *object, path string, one inventory.Advertise) {
	if len(r.pools) == 0 {
		return
	}
	pool := r.pools[0].pool // all have the same advertisements
	for i, have := range pool.Advertise {
		if _, meet := common(have, one); !meet || have.LocalPref == one.LocalPref {
			continue
		}
		low, high, at := said{r.says[i].object, have.LocalPref}, said{object, one.LocalPref}, r.says[i].path
		if low.number > high.number {
			low, high, at = high, low, path
		}
		r.tellLower(pool.Name, at+".attributes.localPreference", low, high)
	}
}

// obstacle returns the reason why an advertisement is not carried over; empty: it is.
func (r *ciliumReader) obstacle(advertisement ciliumAdvertisement, to audience) (Code, string) {
	switch {
	case advertisement.AdvertisementType != "Service":
		message, known := ciliumNotCarried[advertisement.AdvertisementType]
		if !known {
			return UnknownField, fmt.Sprintf("advertisementType %q is not known here, and not carried over", advertisement.AdvertisementType)
		}
		return NoCounterpart, advertisement.AdvertisementType + ": " + message
	case !slices.Contains(advertisement.Service.Addresses, "LoadBalancerIP"):
		return NoCounterpart, "announces " + strings.Join(advertisement.Service.Addresses, ", ") + ": Plinth announces VIPs of load balancers alone"
	case advertisement.Selector == nil:
		return NotValid, "has no selector, and so chooses no Service: it is left out"
	case len(r.pools) == 0:
		return NotValid, "no CiliumLoadBalancerIPPool was read that it could announce: it is left out"
	case r.noBGP:
		return Differs, "no CiliumBGPClusterConfig was read, and a CiliumL2AnnouncementPolicy answers for the pools: they are announced on the link alone"
	case !to.chosen:
		return NotValid, "no CiliumBGPPeerConfig that was read chooses it by its labels (families.advertisements): it is left out"
	}
	return "", ""
}

// communities returns the communities of an advertisement. A standard one may be a single number.
func (r *ciliumReader) communities(object *object, path string, advertisement ciliumAdvertisement) inventory.Communities {
	var all []inventory.Community
	add := func(kind string, texts []string, prefix string) {
		for i, text := range texts {
			community, err := inventory.ParseCommunity(prefix + strings.ToLower(text))
			if err != nil {
				r.markAndNote(object, fmt.Sprintf("%s.%s[%d]", path, kind, i), NotValid, fmt.Sprintf("%v: it is left out", err))
				continue
			}
			all = append(all, community)
		}
	}
	add("standard", numbersApart(advertisement.Attributes.Communities.Standard), "")
	add("wellKnown", advertisement.Attributes.Communities.WellKnown, "")
	add("large", advertisement.Attributes.Communities.Large, "large:")
	return inventory.CommunitiesOf(all...)
}

// numbersApart writes communities that are one number of 32 bits as two of 16.
func numbersApart(all []string) (out []string) {
	for _, text := range all {
		var n uint32
		if _, err := fmt.Sscanf(text, "%d", &n); err == nil && !strings.Contains(text, ":") {
			text = fmt.Sprintf("%d:%d", n>>16, n&0xffff)
		}
		out = append(out, text)
	}
	return out
}
