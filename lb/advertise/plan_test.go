package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

// datacenter has two racks with a router each, of which the second is of the
// machines' own AS, and pools of every kind.
const datacenter = `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  communities: {public: "65010:100"}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16, "fd00:244::/48"], rackPrefix: {ipv4: 20, ipv6: 56}, nodePrefix: {ipv4: 24, ipv6: 64}}
  pools:
    - {name: a-public, addresses: [203.0.113.0/25, "2001:db8:113::/112"], advertise: {communities: [public], localPref: 200, prepend: 1}}
    - {name: b-wide, addresses: [198.51.100.0/25, 198.51.100.130-198.51.100.140], advertise: {aggregate: {ipv4: 26}}}
    - {name: c-off, addresses: [192.0.2.0/26], state: disabled}
    - {name: d-r2, addresses: [192.0.2.64/26], advertise: {racks: [r2]}}
    - {name: e-zone, addresses: [192.0.2.128/26], advertise: {zones: [zb]}}
    - {name: f-tor, addresses: [192.0.2.192/27], advertise: {routers: [tor2]}}
    - {name: g-weighted, addresses: [192.0.2.224/28], advertise: {weighted: true}}
    - {name: h-draining, addresses: [192.0.2.240/28], state: draining}
    - name: i-several
      addresses: [203.0.113.128/25]
      advertise:
        - {serviceSelector: {matchLabels: {tier: gold}}, routers: [tor1], communities: [public]}
        - {serviceSelector: {matchExpressions: [{key: tier, operator: Exists}]}, aggregate: {ipv4: 28}, localPref: 50, prepend: 3}
        - {serviceSelector: {matchLabels: {tier: gold}}, racks: [r2], aggregate: {ipv4: 28}, localPref: 300, weighted: true}
        - {serviceSelector: {matchLabels: {site: zb}}, zones: [zb], racks: [r1, r2]}
  racks:
    - name: r1
      zone: za
      routers: [{name: tor1, addresses: [10.10.1.1, "2001:db8:10:1::1"], asn: 65101}]
      machines:
        - {name: w1, addresses: [10.10.1.11, "2001:db8:10:1::b"]}
        - {name: w2, addresses: [10.10.1.12]}
    - name: r2
      zone: zb
      routers: [{name: tor2, address: 10.10.2.1, asn: 65010}]
      machines:
        - {name: w3, addresses: [10.10.2.11, "2001:db8:10:2::b"]}
`

func load(t testing.TB, yaml string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "test.yaml", Data: []byte(yaml)})
	if inv == nil {
		t.Fatal(problems)
	}
	return inv
}

// view is that of a healthy machine without anything to offer.
func view(t testing.TB, inv *inventory.Inventory, machine string) View {
	t.Helper()
	m, ok := inv.Machine(machine)
	if !ok {
		t.Fatalf("no machine %s", machine)
	}
	return View{Inventory: inv, Machine: m, ProxyHealthy: true}
}

// offer is a Service with endpoints on this machine and elsewhere.
func offer(name string, local, any int, vips ...string) (all []Offer) {
	for _, v := range vips {
		all = append(all, Offer{Service: lb.ServiceKey{Namespace: "prod", Name: name}, VIP: netip.MustParseAddr(v), Endpoints: Endpoints{Local: local, Any: any}})
	}
	return all
}

func localOnly(all []Offer) []Offer {
	for i := range all {
		all[i].LocalTraffic = true
	}
	return all
}

// pending has kube-proxy lack the rules.
func pending(all []Offer) []Offer {
	for i := range all {
		all[i].RulesPending = true
	}
	return all
}

func notFollowed(offers []Offer) []Offer {
	for i := range offers {
		offers[i].Endpoints.NotFollowed = true
	}
	return offers
}

// terminating has local endpoints serve that terminate, while others are ready elsewhere.
func terminating(all []Offer) []Offer {
	for i := range all {
		all[i].Endpoints.Terminating = true
	}
	return all
}

// text prints a plan, one line for each advertisement and refusal.
func text(p Plan) []string {
	lines := []string{}
	for _, s := range p.Sessions {
		for a := range s.Advertisements.All() {
			line := fmt.Sprintf("%s via %s/%v", a.Prefix, s.Session.Router, s.Session.RouterAddr)
			if a.Communities != "" {
				line += " [" + a.Communities.String() + "]"
			}
			if a.LocalPref > 0 {
				line += fmt.Sprintf(" pref %d", a.LocalPref)
			}
			if a.Prepend > 0 {
				line += fmt.Sprintf(" prepend %d", a.Prepend)
			}
			if a.Bandwidth > 0 {
				line += fmt.Sprintf(" bandwidth %d", a.Bandwidth)
			}
			lines = append(lines, line)
		}
	}
	for d := range p.Demotions.All() {
		lines = append(lines, fmt.Sprintf("worse %v: %s", d.Prefix, d.Reason))
	}
	for r := range p.Refusals.All() {
		what := "pods " + r.PodCIDR.String()
		if r.VIP.IsValid() {
			what = r.Service.String() + " " + r.VIP.String()
		}
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("no %s: %s %s", what, r.Reason, r.Router), " "))
	}
	return lines
}

func TestAMachineAnnouncesWhatItCanServeAndSaysWhyNotTheRest(t *testing.T) {
	tests := []struct {
		name    string
		machine string // w1 where none is given
		view    func(*View)
		offers  [][]Offer
		want    []string
	}{
		{
			name:   "a Service of both families goes over the session of each family",
			offers: [][]Offer{offer("web", 0, 1, "203.0.113.10", "2001:db8:113::10")},
			want: []string{
				"203.0.113.10/32 via tor1/10.10.1.1 [65010:100] prepend 1",
				"2001:db8:113::10/128 via tor1/2001:db8:10:1::1 [65010:100] prepend 1",
			},
		},
		{
			name:    "local preference goes to routers of the own AS alone, prepending to others alone",
			machine: "w3",
			offers:  [][]Offer{offer("web", 0, 1, "203.0.113.10", "2001:db8:113::10")},
			want: []string{
				"203.0.113.10/32 via tor2/10.10.2.1 [65010:100] pref 200",
				"2001:db8:113::10/128 via tor2/10.10.2.1 [65010:100] pref 200",
			},
		},
		{
			name:    "a machine of one family cannot tell routes of the other",
			machine: "w2",
			offers:  [][]Offer{offer("web", 0, 1, "203.0.113.10", "2001:db8:113::10")},
			want: []string{
				"203.0.113.10/32 via tor1/10.10.1.1 [65010:100] prepend 1",
				"no prod/web 2001:db8:113::10: SessionLacksFamily tor1",
			},
		},
		{
			name:   "no endpoint anywhere",
			offers: [][]Offer{offer("web", 0, 0, "203.0.113.10"), localOnly(offer("db", 0, 0, "203.0.113.11"))},
			want:   []string{"no prod/db 203.0.113.11: NoEndpoint", "no prod/web 203.0.113.10: NoEndpoint"},
		},
		{
			name:   "no endpoint that the proxy knows of",
			offers: [][]Offer{notFollowed(offer("web", 0, 0, "203.0.113.10")), notFollowed(localOnly(offer("db", 0, 0, "203.0.113.11")))},
			want:   []string{"no prod/db 203.0.113.11: EndpointsNotFollowed", "no prod/web 203.0.113.10: EndpointsNotFollowed"},
		},
		{
			name:   "with local traffic the endpoints of other machines do not count",
			offers: [][]Offer{localOnly(offer("web", 0, 3, "203.0.113.10")), localOnly(offer("db", 1, 3, "203.0.113.11"))},
			want:   []string{"203.0.113.11/32 via tor1/10.10.1.1 [65010:100] prepend 1", "no prod/web 203.0.113.10: NoLocalEndpoint"},
		},
		{
			name:   "what kube-proxy has no rules for yet is not announced, for that reason only where there is no other",
			offers: [][]Offer{pending(offer("new", 1, 1, "203.0.113.10")), pending(offer("off", 1, 1, "192.0.2.1")), pending(offer("none", 0, 0, "203.0.113.11"))},
			want:   []string{"no prod/new 203.0.113.10: ProxyRulesPending", "no prod/none 203.0.113.11: NoEndpoint", "no prod/off 192.0.2.1: PoolIsDisabled"},
		},
		{
			name: "Services that share a VIP announce it as long as one of them can serve",
			offers: [][]Offer{
				offer("dns-tcp", 0, 0, "203.0.113.10"), offer("dns-udp", 1, 1, "203.0.113.10"),
			},
			want: []string{"203.0.113.10/32 via tor1/10.10.1.1 [65010:100] prepend 1", "no prod/dns-tcp 203.0.113.10: NoEndpoint"},
		},
		{
			name:   "aggregates cover their VIPs once, and never what the pool does not own",
			offers: [][]Offer{offer("a", 0, 1, "198.51.100.3"), offer("b", 0, 1, "198.51.100.4"), offer("c", 0, 1, "198.51.100.131")},
			want:   []string{"198.51.100.0/26 via tor1/10.10.1.1", "198.51.100.131/32 via tor1/10.10.1.1"},
		},
		{
			name: "a VIP with local traffic is announced beside its aggregate, which may come from elsewhere, too",
			offers: [][]Offer{
				localOnly(offer("a", 1, 2, "198.51.100.3")), localOnly(offer("b", 0, 2, "198.51.100.4")), offer("c", 0, 2, "198.51.100.70"), localOnly(offer("d", 1, 2, "198.51.100.131")),
			},
			want: []string{
				"198.51.100.0/26 via tor1/10.10.1.1", "198.51.100.3/32 via tor1/10.10.1.1", "198.51.100.64/26 via tor1/10.10.1.1", "198.51.100.131/32 via tor1/10.10.1.1",
				"no prod/b 198.51.100.4: NoLocalEndpoint",
			},
		},
		{
			name:   "the states of pools",
			offers: [][]Offer{offer("off", 0, 1, "192.0.2.1"), offer("draining", 0, 1, "192.0.2.241")},
			want:   []string{"192.0.2.241/32 via tor1/10.10.1.1", "no prod/off 192.0.2.1: PoolIsDisabled"},
		},
		{
			name:   "pools for other racks, zones and routers",
			offers: [][]Offer{offer("rack", 0, 1, "192.0.2.65"), offer("zone", 0, 1, "192.0.2.129"), offer("router", 0, 1, "192.0.2.193")},
			want: []string{
				"no prod/rack 192.0.2.65: PoolLimitedToRacks",
				"no prod/router 192.0.2.193: PoolLimitedToRouters tor1",
				"no prod/zone 192.0.2.129: PoolLimitedToZones",
			},
		},
		{
			name:    "pools for this rack, zone and router",
			machine: "w3",
			offers:  [][]Offer{offer("rack", 0, 1, "192.0.2.65"), offer("zone", 0, 1, "192.0.2.129"), offer("router", 0, 1, "192.0.2.193")},
			want:    []string{"192.0.2.65/32 via tor2/10.10.2.1 pref 100", "192.0.2.129/32 via tor2/10.10.2.1 pref 100", "192.0.2.193/32 via tor2/10.10.2.1 pref 100"},
		},
		{
			name:   "weights stand in proportion to the local endpoints, and only with local traffic",
			offers: [][]Offer{localOnly(offer("web", 3, 4, "192.0.2.225")), offer("db", 3, 4, "192.0.2.226")},
			want:   []string{"192.0.2.225/32 via tor1/10.10.1.1 bandwidth 375000", "192.0.2.226/32 via tor1/10.10.1.1"},
		},
		{
			name:   "addresses of nobody's",
			offers: [][]Offer{offer("web", 0, 1, "8.8.8.8", "::ffff:203.0.113.10", "10.10.1.1", "224.0.0.1")},
			want: []string{
				"no prod/web 8.8.8.8: VIPOutsidePools", "no prod/web 10.10.1.1: VIPOutsidePools",
				"no prod/web 224.0.0.1: VIPOutsidePools", "no prod/web ::ffff:203.0.113.10: VIPOutsidePools",
			},
		},
		{
			name:   "an excluded node announces no VIP, but its pods",
			view:   func(v *View) { v.Excluded = true; v.PodCIDRs = cidrs("10.244.1.0/24") },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"10.244.1.0/24 via tor1/10.10.1.1", "no prod/web 203.0.113.10: NodeExcluded"},
		},
		{
			name:   "a machine without a working kube-proxy announces no VIP, but its pods",
			view:   func(v *View) { v.ProxyHealthy = false; v.PodCIDRs = cidrs("10.244.1.0/24") },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"10.244.1.0/24 via tor1/10.10.1.1", "no prod/web 203.0.113.10: ProxyUnhealthy"},
		},
		{
			name: "pods of both families, within the pod network alone",
			view: func(v *View) {
				v.PodCIDRs = cidrs("10.244.1.0/24", "fd00:244:0:1::/64", "203.0.113.0/25", "10.0.0.0/8")
			},
			want: []string{
				"10.244.1.0/24 via tor1/10.10.1.1", "fd00:244:0:1::/64 via tor1/2001:db8:10:1::1",
				"no pods 10.0.0.0/8: PodCIDROutsideNetwork", "no pods 203.0.113.0/25: PodCIDROutsideNetwork",
			},
		},
		{
			name:   "draining marks everything, and makes it the worse way",
			view:   func(v *View) { v.Draining = true; v.PodCIDRs = cidrs("10.244.1.0/24") },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"10.244.1.0/24 via tor1/10.10.1.1 [65535:0] prepend 1", "203.0.113.10/32 via tor1/10.10.1.1 [65010:100 65535:0] prepend 2"},
		},
		{
			name:    "draining lowers the preference with routers of the own AS",
			machine: "w3",
			view:    func(v *View) { v.Draining = true; v.Machine.State = inventory.StateMaintenance },
			offers:  [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:    []string{"203.0.113.10/32 via tor2/10.10.2.1 [65010:100 65535:0] pref 1"},
		},
		{
			name:   "local endpoints that only terminate make it the worse way while others are ready, and nothing else",
			offers: [][]Offer{terminating(localOnly(offer("web", 2, 5, "203.0.113.10", "198.51.100.3"))), localOnly(offer("api", 1, 3, "203.0.113.11"))},
			want: []string{
				"198.51.100.0/26 via tor1/10.10.1.1 [65535:0] prepend 1", "198.51.100.3/32 via tor1/10.10.1.1 [65535:0] prepend 1",
				"203.0.113.10/32 via tor1/10.10.1.1 [65010:100 65535:0] prepend 2", "203.0.113.11/32 via tor1/10.10.1.1 [65010:100] prepend 1",
				"worse 198.51.100.0/26: LocalEndpointsTerminating", "worse 198.51.100.3/32: LocalEndpointsTerminating", "worse 203.0.113.10/32: LocalEndpointsTerminating",
			},
		},
		{
			name:    "the worse way has a lower preference with routers of the own AS, and a machine that drains is no worse still",
			machine: "w3",
			view:    func(v *View) { v.Draining = true },
			offers:  [][]Offer{terminating(localOnly(offer("web", 1, 3, "203.0.113.10"))), localOnly(offer("api", 1, 3, "203.0.113.11"))},
			want: []string{
				"203.0.113.10/32 via tor2/10.10.2.1 [65010:100 65535:0] pref 1", "203.0.113.11/32 via tor2/10.10.2.1 [65010:100 65535:0] pref 1",
				"worse 203.0.113.10/32: LocalEndpointsTerminating",
			},
		},
		{
			name:   "where the cluster's endpoints serve, those that terminate here make no difference",
			offers: [][]Offer{terminating(offer("web", 1, 3, "203.0.113.10"))},
			want:   []string{"203.0.113.10/32 via tor1/10.10.1.1 [65010:100] prepend 1"},
		},
		{
			name: "one Service of a VIP, or of an aggregate, that is served by ready endpoints keeps the way",
			offers: [][]Offer{
				terminating(localOnly(offer("web", 3, 5, "203.0.113.10", "198.51.100.3"))),
				localOnly(offer("api", 1, 2, "203.0.113.10")), offer("other", 0, 1, "198.51.100.4"),
			},
			want: []string{
				"198.51.100.0/26 via tor1/10.10.1.1", "198.51.100.3/32 via tor1/10.10.1.1 [65535:0] prepend 1",
				"203.0.113.10/32 via tor1/10.10.1.1 [65010:100] prepend 1",
				"worse 198.51.100.3/32: LocalEndpointsTerminating",
			},
		},
		{
			name:   "a drained machine announces nothing",
			view:   func(v *View) { v.Draining, v.Withdrawn = true, true; v.PodCIDRs = cidrs("10.244.1.0/24") },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no pods 10.244.1.0/24: MachineDrained", "no prod/web 203.0.113.10: MachineDrained"},
		},
		{
			name:   "a machine in maintenance that is not being drained announces nothing",
			view:   func(v *View) { v.Machine.State = inventory.StateMaintenance },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no prod/web 203.0.113.10: MachineNotActive"},
		},
		{
			name:   "a planned machine announces nothing, not even while it is drained",
			view:   func(v *View) { v.Machine.State, v.Draining = inventory.StatePlanned, true },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no prod/web 203.0.113.10: MachineNotActive"},
		},
		{
			name:   "a machine that is off announces nothing, not even while it is drained",
			view:   func(v *View) { v.Machine.State, v.Draining = inventory.StateOff, true },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no prod/web 203.0.113.10: MachineNotActive"},
		},
		{
			name:   "a retired machine announces nothing, not even while it is drained",
			view:   func(v *View) { v.Machine.State, v.Draining = inventory.StateRetired, true },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no prod/web 203.0.113.10: MachineNotActive"},
		},
		{
			name:   "a machine without routers",
			view:   func(v *View) { v.Machine.Addresses = nil },
			offers: [][]Offer{offer("web", 1, 1, "203.0.113.10")},
			want:   []string{"no prod/web 203.0.113.10: NoSession"},
		},
	}
	inv := load(t, datacenter)
	given := map[lb.Reason]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := view(t, inv, orElse(tt.machine, "w1"))
			v.Offers = sorted.Of(slices.Concat(tt.offers...)...)
			if tt.view != nil {
				tt.view(&v)
			}
			p := PlanOf(v)
			if d := cmp.Diff(tt.want, text(p)); d != "" {
				t.Error(d)
			}
			for r := range p.Refusals.All() {
				given[r.Reason] = true
			}
		})
	}
	for _, r := range advertiseReasons() {
		if !given[r] {
			t.Errorf("no case of this table is refused for %s", r)
		}
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func cidrs(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func TestWithoutAPodNetworkTheNodesOwnPodCIDRsAreAnnouncedWhereTheyAreAskedFor(t *testing.T) {
	inv := load(t, `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  bgp: {asn: 64514, advertise: {podCIDRs: true}}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: nuc1, addresses: [192.168.1.11]}]}]
  pools: [{name: default, addresses: [192.168.50.0/26]}]
`)
	v := view(t, inv, "nuc1")
	v.PodCIDRs = cidrs("10.42.0.0/24")
	if d := cmp.Diff([]string{"10.42.0.0/24 via gateway/192.168.1.1"}, text(PlanOf(v))); d != "" {
		t.Error(d)
	}
}

func TestEndpointsAreCountedTheWayKubeProxyDoes(t *testing.T) {
	ready, ending := Endpoint{Ready: true, Serving: true}, Endpoint{Serving: true, Terminating: true}
	starting, dead := Endpoint{}, Endpoint{Terminating: true}
	local := func(e Endpoint) Endpoint { e.Local = true; return e }
	hidden := func(e Endpoint) Endpoint { e.NotFollowed = true; return e }
	tests := []struct {
		name string
		all  []Endpoint
		want Endpoints
	}{
		{"none", nil, Endpoints{}},
		{"those that the proxy does not know of do not count", []Endpoint{hidden(ready), local(hidden(ending))}, Endpoints{NotFollowed: true}},
		{"nor is it told of them beside others", []Endpoint{hidden(ready), local(hidden(ready)), local(ending)}, Endpoints{Local: 1, Any: 1}},
		{"nor of those that could take no traffic", []Endpoint{hidden(starting), hidden(dead)}, Endpoints{}},
		{"neither starting nor dead ones count", []Endpoint{starting, local(starting), dead, local(dead)}, Endpoints{}},
		{"ready ones count", []Endpoint{ready, local(ready), local(ready)}, Endpoints{Local: 2, Any: 3, Ready: true}},
		{"those that end do not count beside ready ones", []Endpoint{ready, ending}, Endpoints{Any: 1}},
		{"those that end count where nothing else is", []Endpoint{ending, local(ending)}, Endpoints{Local: 1, Any: 2}},
		{"a machine falls back on its own, which end while another is ready", []Endpoint{ready, local(ending)}, Endpoints{Local: 1, Any: 1, Terminating: true}},
		{"those that end beside a ready one of the machine make no difference", []Endpoint{local(ready), ready, local(ending)}, Endpoints{Local: 1, Any: 2, Ready: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Count(tt.all); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// advertiseReasons lists every reason that [PlanOf] gives.
func advertiseReasons() []lb.Reason {
	return []lb.Reason{
		lb.MachineNotActive, lb.MachineDrained, lb.NodeExcluded, lb.ProxyUnhealthy, lb.NoSession, lb.SessionLacksFamily, lb.PoolIsDisabled,
		lb.PoolLimitedToRacks, lb.PoolLimitedToZones, lb.PoolLimitedToRouters, lb.VIPOutsidePools, lb.NoEndpoint, lb.EndpointsNotFollowed, lb.NoLocalEndpoint, lb.ProxyRulesPending, lb.PodCIDROutsideNetwork,
	}
}
