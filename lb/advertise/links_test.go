package advertise

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

const onALAN = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks: [{name: shelf, subnets: [192.168.1.0/24], machines: [{name: w1, addresses: [192.168.1.11]}, {name: w2, addresses: [192.168.1.12]}]}]
  pools: [{name: lan, addresses: [192.168.1.200-192.168.1.219]}]
`

// A Service that comes to share a VIP has no rules yet, and those of the other one are in use.
func TestASharedVIPIsPendingWhileTheRulesOfNoneAreThere(t *testing.T) {
	of := func(name string, local, any int, localTraffic, pending bool) Offer {
		o := offer(name, local, any, "192.168.1.200")[0]
		o.LocalTraffic, o.RulesPending = localTraffic, pending
		return o
	}
	fresh, other := of("fresh", 1, 1, false, true), of("later", 1, 1, false, true)
	for _, c := range []struct {
		name    string
		offers  []Offer
		pending bool
	}{
		{"alone", []Offer{fresh}, true},
		{"both are fresh", []Offer{fresh, other}, true},
		{"the other has its rules", []Offer{fresh, of("old", 1, 1, false, false)}, false},
		{"the other has them, and comes first", []Offer{of("a", 1, 1, false, false), fresh}, false},
		{"the other has no endpoint", []Offer{fresh, of("old", 0, 0, false, false)}, true},
		{"the other has none here, and needs one", []Offer{fresh, of("old", 0, 1, true, false)}, true},
	} {
		v := view(t, load(t, onALAN), "w1")
		v.Offers = sorted.Of(c.offers...)
		plans := LinksOf(v)
		if len(plans) != 1 {
			t.Fatalf("%d links", len(plans))
		}
		var want []netip.Addr
		if c.pending {
			want = []netip.Addr{fresh.VIP}
		}
		if got := plans[0].Pending; !slices.Equal(got, want) {
			t.Errorf("%s: pending are %v, want %v", c.name, got, want)
		}
	}
}

// The rules of other proxies say nothing of kube-proxy's.
func TestAMachineWithoutRulesLeavesItsLinkWhateverOtherProxiesServeThere(t *testing.T) {
	lost, others := offer("web", 1, 1, "192.168.1.200")[0], offer("elsewhere", 1, 1, "192.168.1.201")[0].of("other")
	lost.RulesPending, lost.RulesLost = true, true
	kept := offer("kept", 1, 1, "192.168.1.202")[0]
	for _, c := range []struct {
		name    string
		offers  []Offer
		leaving lb.Reason
	}{
		{"all rules are gone", []Offer{lost}, lb.ProxyRulesLost},
		{"all rules of kube-proxy's are gone", []Offer{lost, others}, lb.ProxyRulesLost},
		{"some are there", []Offer{lost, others, kept}, ""},
		{"there are none of kube-proxy's", []Offer{others}, ""},
	} {
		v := view(t, load(t, onALAN), "w1")
		v.Offers = sorted.Of(c.offers...)
		if p := LinksOf(v)[0]; p.Leaving != c.leaving || len(p.Pending) > 0 {
			t.Errorf("%s: it leaves for %q, pending %v", c.name, p.Leaving, p.Pending)
		}
	}
}

// A machine that is not to serve is never the owner: another one takes its place, or it falls silent at once where nobody may rely
// on it.
func TestAMachineThatIsNotToServeOwnsNothing(t *testing.T) {
	healthy, drained := func(*View) {}, func(v *View) { v.Draining = true }
	for _, c := range []struct {
		name    string
		state   string
		change  func(*View)
		leaving lb.Reason
		silent  bool
		lingers bool
	}{
		{"active", "active", healthy, "", false, false},
		{"planned", "planned", healthy, lb.MachineNotActive, true, false},
		{"off", "off", healthy, lb.MachineNotActive, true, false},
		{"off while it was being drained", "off", drained, lb.MachineNotActive, true, false},
		{"in maintenance", "maintenance", healthy, lb.MachineNotActive, true, false},
		{"just put into maintenance", "maintenance", drained, lb.MachineDrained, false, true},
		{"drained", "active", drained, lb.MachineDrained, false, true},
		{"withdrawn", "active", func(v *View) { v.Withdrawn = true }, lb.MachineDrained, true, false},
		{"withdrawn after its drain", "active", func(v *View) { v.Withdrawn, v.Draining = true, true }, lb.MachineDrained, true, false},
		{"excluded", "active", func(v *View) { v.Excluded = true }, lb.NodeExcluded, false, false},
		{"excluded and drained", "active", func(v *View) { v.Excluded, v.Draining = true, true }, lb.NodeExcluded, false, false},
		{"with a kube-proxy that is not healthy", "active", func(v *View) { v.ProxyHealthy = false }, lb.ProxyUnhealthy, false, false},
	} {
		v := view(t, load(t, strings.Replace(onALAN, "{name: w1,", "{name: w1, state: "+c.state+",", 1)), "w1")
		v.Offers = sorted.Of(offer("web", 1, 1, "192.168.1.200")...)
		c.change(&v)
		p := LinksOf(v)[0]
		if p.Leaving != c.leaving || p.Silent != c.silent {
			t.Errorf("%s: it leaves for %q, and is silent: %v; want %q, %v", c.name, p.Leaving, p.Silent, c.leaving, c.silent)
		}
		others := Up
		for _, want := range []string{"w2", ""} {
			s := p.Segment("w1", func(string) Standing { return others }, NoWitness)
			if s.Lingers != c.lingers {
				t.Errorf("%s: it answers until another one does: %v, want %v", c.name, s.Lingers, c.lingers)
			}
			if c.leaving == "" {
				want = "w1"
			}
			if owner, _ := s.Owner(p.VIPs[0], "w1"); owner != want {
				t.Errorf("%s, with the other one %v: %q owns what it had, want %q", c.name, others, owner, want)
			}
			others = Down
		}
	}
}

func TestAServiceWithoutEndpointsLeavesTheTrafficOfAnotherLocal(t *testing.T) {
	vip := netip.MustParseAddr("192.0.2.1")
	local := LinkVIP{VIP: vip, Local: true, At: []string{"b"}, Served: true}
	for _, all := range [][]LinkVIP{addLinkVIP([]LinkVIP{{VIP: vip}}, local), addLinkVIP([]LinkVIP{local}, LinkVIP{VIP: vip})} {
		if !all[0].Local || !slices.Equal(all[0].At, []string{"b"}) {
			t.Errorf("%+v", all[0])
		}
	}
}

func TestAVIPThatServicesShareIsAnnouncedWhereAnyOfThemIs(t *testing.T) {
	const racks = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: home}
spec:
  racks:
    - {name: r1, subnets: [192.168.1.0/24], machines: [{name: w1, addresses: [192.168.1.11]}]}
    - {name: r2, subnets: [192.168.1.0/24], machines: [{name: w2, addresses: [192.168.1.12]}]}
    - {name: r3, subnets: [192.168.1.0/24], machines: [{name: w3, addresses: [192.168.1.13]}]}
  pools:
    - name: lan
      addresses: [192.168.1.200-192.168.1.219]
      advertise:
        - {serviceSelector: {matchLabels: {at: "1"}}, racks: [r1]}
        - {serviceSelector: {matchLabels: {at: "2"}}, racks: [r2]}
        - {serviceSelector: {matchLabels: {at: all}}}
`
	inv := load(t, racks)
	pool, _ := inv.Pool("lan")
	for _, c := range []struct{ at, may []string }{
		{[]string{"1"}, []string{"w1"}}, {[]string{"2", "1"}, []string{"w1", "w2"}}, {[]string{"1", "nowhere"}, []string{"w1"}}, {[]string{"nowhere", "2"}, []string{"w2"}},
		{[]string{"1", "all"}, nil}, {[]string{"all", "1"}, nil}, {[]string{"nowhere"}, nil},
	} {
		v := view(t, inv, "w1")
		var labels []map[string]string
		var offers []Offer
		for _, at := range c.at {
			o := offer("s"+at, 1, 1, "192.168.1.200")[0]
			o.Labels = LabelsOf(map[string]string{"at": at}, []string{"at"})
			labels, offers = append(labels, map[string]string{"at": at}), append(offers, o)
		}
		if got := MayOf(&pool, inv.Links()[0], labels); !slices.Equal(got, c.may) || (got == nil) != (c.may == nil) {
			t.Errorf("Services at %v: %v may announce it, want %v", c.at, got, c.may)
		}
		v.Offers = sorted.Of(offers...)
		var want []LinkVIP
		if !slices.Equal(c.at, []string{"nowhere"}) {
			want = []LinkVIP{{VIP: offers[0].VIP, May: c.may, Served: true}}
		}
		if got := LinksOf(v)[0].VIPs; !reflect.DeepEqual(got, want) {
			t.Errorf("Services at %v: the agent plans %+v, want %+v", c.at, got, want)
		}
	}
}
