package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/guide"
)

// TestEveryReasonForNoVIPIsFound provokes each reason of that page, and asks `plinth why` and
// `plinth status` about it.
func TestEveryReasonForNoVIPIsFound(t *testing.T) {
	c := newCluster(t)
	plinth := c.plinth()
	c.start()
	c.EditInventory(apiserver.Document(`
  racks: [{name: r01, subnets: [10.10.1.0/26], machines: [{name: w1, addresses: [10.10.1.11]}]}]
`), nil)
	c.service("nopools")
	c.found(plinth, "default/nopools", "pool", "NoPools")
	seen := []string{"NoPools"}

	c.pools(`
    - {name: a-manual, addresses: [192.0.2.0/28], autoAssign: false}
    - {name: b-going, addresses: [192.0.2.16/29], state: draining, autoAssign: false}
    - {name: closed, addresses: [192.0.2.24/29], state: disabled, autoAssign: false}
    - {name: theirs, addresses: [192.0.2.32/29], namespaces: [theirs], autoAssign: false}
    - {name: gold, addresses: [192.0.2.40/29], serviceSelector: {matchLabels: {tier: gold}}, autoAssign: false}
    - {name: one, addresses: [192.0.2.48/32], autoAssign: false}
    - {name: some, addresses: [192.0.2.56/29], exclude: [192.0.2.57], reserved: {192.0.2.58: default/owner}, autoAssign: false}
`)
	c.Kubectl("create", "namespace", "other")
	pool := func(name string) func(*v1.Service) { return annotated("plinth.dev/pool", name) }
	ips := func(list string) func(*v1.Service) { return annotated("plinth.dev/ips", list) }
	key := func(name string) func(*v1.Service) { return annotated("plinth.dev/sharing-key", name) }
	c.service("last", pool("one"))
	c.has("last", "192.0.2.48")
	c.service("holder", ips("192.0.2.56"), key("k"))
	c.has("holder", "192.0.2.56")
	c.service("near", ips("192.0.2.59"), key("k"), localTraffic)
	c.has("near", "192.0.2.59")
	c.service("guest", ips("192.0.2.60"), elsewhere)
	c.Eventually(20*time.Second, "the guest has its address", func(ctx context.Context) error { return c.holds(ctx, "192.0.2.60", "other/guest") })
	must(t, c.Client.CoreV1().Services("other").Delete(t.Context(), "guest", metav1.DeleteOptions{}))
	c.free("192.0.2.60")

	for _, w := range []struct {
		reason string
		change []func(*v1.Service)
	}{
		{"PoolUnknown", []func(*v1.Service){pool("nosuch")}},
		{"PoolNotAutomatic", nil},
		{"PoolIsDraining", []func(*v1.Service){pool("b-going")}},
		{"PoolIsDisabled", []func(*v1.Service){pool("closed")}},
		{"NamespaceNotAllowed", []func(*v1.Service){pool("theirs")}},
		{"LabelsNotSelected", []func(*v1.Service){pool("gold")}},
		{"PoolLacksFamily", []func(*v1.Service){pool("one"), families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol)}},
		{"PoolExhausted", []func(*v1.Service){pool("one")}},
		{"AddressInvalid", []func(*v1.Service){ips("192.0.2.300")}},
		{"AddressNotInPool", []func(*v1.Service){ips("198.51.100.1")}},
		{"AddressExcluded", []func(*v1.Service){ips("192.0.2.57")}},
		{"AddressReserved", []func(*v1.Service){ips("192.0.2.58")}},
		{"AddressInUse", []func(*v1.Service){ips("192.0.2.48")}},
		{"AddressResting", []func(*v1.Service){ips("192.0.2.60")}},
		{"FamilyNotRequested", []func(*v1.Service){ips("2001:db8::1")}},
		{"SharingKeyDiffers", []func(*v1.Service){ips("192.0.2.56"), key("another"), port(81)}},
		{"SharingPortInUse", []func(*v1.Service){ips("192.0.2.56"), key("k")}},
		{"SharingBackendsDiffer", []func(*v1.Service){ips("192.0.2.59"), key("k"), port(81), localTraffic}},
		{"SharingNamespace", []func(*v1.Service){ips("192.0.2.56"), key("k"), port(81), elsewhere}},
		{"SharingKeyInvalid", []func(*v1.Service){key(strings.Repeat("k", 254))}},
	} {
		s := c.service(strings.ToLower(w.reason), w.change...)
		c.found(plinth, s.Namespace+"/"+s.Name, "pool", w.reason)
		seen = append(seen, w.reason)
	}
	everyReason(t, "reasons.md", "Why a Service gets no VIP", seen)
}

// unreached is an inventory with pools that nobody may announce, for another reason each.
const unreached = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  safety: {maxUnreachable: 100%, maxDrained: 100%}
  racks:
    - name: r1
      routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]
      machines:
        - {name: w1, addresses: [10.1.0.11]}
        - {name: w2, addresses: [10.1.0.12]}
    - {name: bare, zone: yard, routers: [{name: tor-bare, address: 10.9.0.1, asn: 65109}]}
  pools:
    - {name: public, addresses: [203.0.113.0/25]}
    - {name: fading, addresses: [192.0.2.0/29], autoAssign: false}
    - {name: leaving, addresses: [192.0.2.8/29], autoAssign: false}
    - {name: six, addresses: ["2001:db8:9::/64"]}
    - {name: racks, addresses: [198.51.100.0/29], autoAssign: false, advertise: {racks: [bare]}}
    - {name: zones, addresses: [198.51.100.8/29], autoAssign: false, advertise: {zones: [yard]}}
    - {name: routers, addresses: [198.51.100.16/29], autoAssign: false, advertise: {routers: [tor-bare]}}
    - {name: gold, addresses: [198.51.100.24/29], autoAssign: false, advertise: {serviceSelector: {matchLabels: {tier: gold}}}}
`

// TestEveryReasonForAVIPThatNobodyAnnouncesIsFound provokes each reason that the API server knows of.
func TestEveryReasonForAVIPThatNobodyAnnouncesIsFound(t *testing.T) {
	c := newCluster(t)
	plinth := c.plinth()
	for _, name := range []string{"w1", "w2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: []v1.Taint{apiserver.Uninitialized()}}}
		n.Status.Conditions = []v1.NodeCondition{apiserver.Ready(true), fabric(v1.ConditionTrue, "Ready", "routes 0/0, sessions 1/1")}
		_, err := c.Client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
		must(t, err)
	}
	c.EditInventory(unreached, nil)
	c.start()
	for _, name := range []string{"fading", "leaving", "racks", "zones", "routers", "gold"} {
		c.service(name, annotated("plinth.dev/pool", name))
		c.endpoints(name, "w1")
	}
	c.service("web")
	c.endpoints("web", "w1", "w2")
	c.service("idle")
	c.service("unseen")
	c.endpoints("unseen", "w1")
	c.Kubectl("label", "endpointslice", "unseen", lb.HeadlessLabel+"=")
	c.service("local", localTraffic)
	c.endpoints("local", "w9")
	c.service("six", families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol))
	c.endpointsOf(discoveryv1.AddressTypeIPv6, "six", "fd00:244::%d", "w1")

	var seen []string
	found := func(service, step, reason string) {
		t.Helper()
		c.found(plinth, "default/"+service, step, reason)
		seen = append(seen, reason)
	}
	edit := func(from, to string) {
		t.Helper()
		if !strings.Contains(unreached, from) {
			t.Fatalf("%q is not there to be edited", from)
		}
		c.EditInventory(strings.Replace(unreached, from, to, 1), nil)
	}
	found("racks", "plan", "PoolLimitedToRacks")
	found("zones", "plan", "PoolLimitedToZones")
	found("routers", "plan", "PoolLimitedToRouters")
	found("gold", "plan", "PoolLimitedToServices")
	found("six", "plan", "SessionLacksFamily")
	c.EditInventory(strings.NewReplacer("address: 10.1.0.1,", "addresses: [10.1.0.1, 2001:db8:1::1],", "[10.1.0.11]", "[10.1.0.11, 2001:db8:1::11]").Replace(unreached), nil)
	c.fabricOfAll(fabric(v1.ConditionFalse, lb.FabricSessionsDown, "routes 0/0, sessions 1/2: tor-r1/2001:db8:1::1 NoAnswer"))
	found("six", "machines", "NoSessionUp")
	c.fabricOfAll(fabric(v1.ConditionTrue, "Ready", "routes 0/0, sessions 1/1"))
	c.EditInventory(unreached, nil)
	found("idle", "endpoints", "NoEndpoint")
	found("unseen", "endpoints", "EndpointsNotFollowed")
	found("local", "endpoints", "NoLocalEndpoint")

	edit("[192.0.2.0/29], autoAssign: false}", "[192.0.2.0/29], autoAssign: false, state: disabled}")
	found("fading", "plan", "PoolIsDisabled")
	edit("    - {name: leaving, addresses: [192.0.2.8/29], autoAssign: false}\n", "")
	found("leaving", "plan", "VIPOutsidePools")

	c.exclude("w1", true)
	c.exclude("w2", true)
	found("web", "plan", "NodeExcluded")
	c.exclude("w1", false)
	c.exclude("w2", false)

	c.fabricOfAll(fabric(v1.ConditionFalse, lb.FabricSessionsDown, "routes 0/0, sessions 0/1: tor-r1 NoAnswer"))
	found("web", "machines", "NoSessionUp")
	c.fabricOfAll(v1.NodeCondition{})
	found("web", "machines", "NoAgent")
	for reason, report := range map[string]lb.Report{
		"ProxyUnhealthy": {ProxyRefuses: true}, "ProxyRulesLost": {RulesLost: lb.RulesLost{Gone: 1, Of: 1}},
	} {
		c.fabricOfAll(fabric(v1.ConditionTrue, "Ready", "routes 0/0, sessions 1/1; "+report.Besides()))
		found("web", "machines", reason)
	}
	c.fabricOfAll(fabric(v1.ConditionTrue, "Ready", "routes 0/0, sessions 1/1"))

	edit("machines:\n", "state: maintenance\n      machines:\n")
	found("web", "plan", "MachineNotActive")
	edit("      routers: [{name: tor-r1, address: 10.1.0.1, asn: 65101}]\n", "")
	found("web", "plan", "NoSession")
	for _, name := range []string{"w1", "w2"} {
		must(t, c.Client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	found("web", "plan", "NoMachineKnown")

	everyReason(t, "reasons.md", "Why a VIP is announced by nobody", append(seen, guide.OfAgents...))
	everyReason(t, "reasons.md", "Why a VIP or a pod CIDR is not announced", append(seen, guide.OfAgents...))
}

// plinth returns the file of the command.
func (c *cluster) plinth() string {
	c.t.Helper()
	file, err := components.Plinths(c.t.Context(), "plinth", c.t.TempDir())
	must(c.t, err)
	return file
}

// found waits until the first step of a Service's chain that does not hold is this one, for this
// reason, and `plinth status` says the same of it.
func (c *cluster) found(plinth, service, step, reason string) {
	c.t.Helper()
	c.Eventually(15*time.Second, service+" has "+reason+" by why and status", func(ctx context.Context) error {
		var chain diagnose.Chain
		if err := c.asks(ctx, &chain, plinth, "why", "svc/"+service); err != nil {
			return err
		}
		if fault, _ := chain.Fault(); fault.Step != step || fault.Reason != reason || fault.Mark != diagnose.LinkBroken {
			return fmt.Errorf("the chain is %+v", chain.Links)
		}
		var status diagnose.Status
		if err := c.asks(ctx, &status, plinth, "status"); err != nil {
			return err
		}
		if !slices.ContainsFunc(status.Findings, func(f diagnose.Finding) bool { return (f.Name == service || f.Of == service) && f.Reason == reason }) {
			return fmt.Errorf("the status has %+v", status.Findings)
		}
		return nil
	})
}

// asks reads what a command says that ends with 1, since something is wrong.
func (c *cluster) asks(ctx context.Context, answer any, plinth string, words ...string) error {
	out, err := exec.CommandContext(ctx, plinth, append(words, "-o", "json", "--kubeconfig", c.Kubeconfig)...).Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 1 {
		return fmt.Errorf("%v: %w: %s", words, err, out)
	}
	return json.Unmarshal(out, answer)
}

// everyReason holds the reasons of a section of a page of the reference against those that were seen.
func everyReason(t *testing.T, name, section string, seen []string) {
	t.Helper()
	unseen, err := guide.Unseen(name, section, seen)
	must(t, err)
	if len(unseen) > 0 {
		t.Errorf("no story provokes these of %q: %q", section, unseen)
	}
}

func localTraffic(svc *v1.Service) {
	svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
}

func elsewhere(svc *v1.Service) { svc.Namespace = "other" }

// fabric is what an agent says of itself.
func fabric(status v1.ConditionStatus, reason, message string) v1.NodeCondition {
	return v1.NodeCondition{Type: lb.FabricReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// fabricOfAll has all agents say the same; a condition without a type: none has ever said anything.
func (c *cluster) fabricOfAll(said v1.NodeCondition) {
	c.t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	must(c.t, err)
	for _, n := range nodes.Items {
		condition := any(said)
		if said.Type == "" {
			condition = map[string]string{"$patch": "delete", "type": lb.FabricReady}
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{condition}}})
		must(c.t, err)
		_, err = c.Client.CoreV1().Nodes().Patch(c.t.Context(), n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		must(c.t, err)
	}
}
