package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manyPools has a pool for each field that bars some Services, and one for the others.
const manyPools = `
    - {name: by-name, priority: -1, addresses: [198.51.100.0/29], autoAssign: false}
    - {name: drained, priority: -1, addresses: [198.51.100.8/29], state: draining}
    - {name: off, priority: -1, addresses: [198.51.100.16/29], state: disabled}
    - {name: of-prod, priority: -1, addresses: [198.51.100.24/29], namespaces: [prod]}
    - {name: of-gold, priority: -1, addresses: [198.51.100.32/29], serviceSelector: {matchLabels: {tier: gold}}}`

const mainPool = `
    - name: main
      addresses: [192.0.2.0/28, 192.0.2.100-192.0.2.101, "2001:db8:2::/112"]
      exclude: [192.0.2.1]
      reserved: {192.0.2.2: default/later, 192.0.2.4: default/never, "2001:db8:2::1": default/later}
      skipFirstLast: true`

func labelled(k, v string) func(*v1.Service) {
	return func(svc *v1.Service) { metav1.SetMetaDataLabel(&svc.ObjectMeta, k, v) }
}

func TestEveryFieldOfAPoolCounts(t *testing.T) {
	c := newCluster(t)
	c.pools(manyPools + mainPool)
	c.start()
	for _, tt := range []struct {
		name   string
		change func(*v1.Service)
		vips   []string
	}{
		{"plain", class, []string{"192.0.2.3"}}, // neither the first, nor the excluded one, nor the reserved one
		{"later", families(v1.IPFamilyPolicyPreferDualStack, v1.IPv4Protocol, v1.IPv6Protocol), []string{"192.0.2.2", "2001:db8:2::1"}},
		{"six", families(v1.IPFamilyPolicySingleStack, v1.IPv6Protocol), []string{"2001:db8:2::2"}},
		{"gold", labelled("tier", "gold"), []string{"198.51.100.32"}},
		{"named", annotated("plinth.dev/pool", "by-name"), []string{"198.51.100.0"}},
		{"asks", annotated("plinth.dev/ips", "198.51.100.5"), []string{"198.51.100.5"}},
		{"range", annotated("plinth.dev/ips", "192.0.2.101"), []string{"192.0.2.101"}}, // skipFirstLast is for CIDRs
	} {
		c.service(tt.name, tt.change)
		c.has(tt.name, tt.vips...)
	}
	for _, tt := range []struct{ name, annotation, value, reason string }{
		{"no1", "plinth.dev/pool", "drained", "PoolIsDraining"},
		{"no2", "plinth.dev/pool", "off", "PoolIsDisabled"},
		{"no3", "plinth.dev/pool", "of-prod", "NamespaceNotAllowed"},
		{"no4", "plinth.dev/pool", "of-gold", "LabelsNotSelected"},
		{"no5", "plinth.dev/pool", "none", "PoolUnknown"},
		{"no6", "plinth.dev/ips", "192.0.2.0", "AddressExcluded"},
		{"no7", "plinth.dev/ips", "192.0.2.1", "AddressExcluded"},
		{"no8", "plinth.dev/ips", "192.0.2.4", "AddressReserved"},
		{"no9", "plinth.dev/ips", "2001:db8:2::2", "FamilyNotRequested"},
		{"no10", "plinth.dev/ips", "::ffff:192.0.2.9", "AddressInvalid"},
		{"no11", "plinth.dev/sharing-key", strings.Repeat("k", 254), "SharingKeyInvalid"},
	} {
		c.service(tt.name, annotated(tt.annotation, tt.value), class)
		c.refused(tt.name, tt.reason)
	}

	edited := strings.Replace(manyPools, "198.51.100.0/29], autoAssign: false", "198.51.100.0/29], state: disabled", 1)
	edited = strings.Replace(edited, "serviceSelector: {matchLabels: {tier: gold}}", "namespaces: [prod]", 1)
	c.pools(edited + strings.Replace(mainPool, "exclude: [192.0.2.1]", "exclude: [192.0.2.1, 192.0.2.3]", 1))
	c.told("plain", "AddressExcluded")
	c.told("gold", "NamespaceNotAllowed")
	c.told("asks", "PoolIsDisabled")

	c.pools(manyPools) // VIPs in use are never taken away
	c.told("plain", "VIPOutsidePools")
	c.service("nowhere")
	const says = "pool by-name: PoolNotAutomatic; pool drained: PoolIsDraining; pool of-gold: LabelsNotSelected; pool of-prod: NamespaceNotAllowed; pool off: PoolIsDisabled"
	c.toldWhy("nowhere", "PoolNotAutomatic", says)
	c.has("plain", "192.0.2.3")
	c.has("later", "192.0.2.2", "2001:db8:2::1")

	c.remove("no1")
	c.gone("no1")
	c.pools(strings.Replace(manyPools, "state: draining", "state: active", 1))
	c.has("nowhere", "198.51.100.8")
}

// toldWhy waits until the condition of a Service and an Event on it both say this.
func (c *cluster) toldWhy(name, reason, message string) {
	c.t.Helper()
	c.refused(name, reason)
	svc, err := c.Client.CoreV1().Services("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if got := meta.FindStatusCondition(svc.Status.Conditions, "plinth.dev/VIPAllocated").Message; got != message {
		c.t.Errorf("the condition says %q, want %q", got, message)
	}
	c.Eventually(10*time.Second, "an Event on "+name+" says so", func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range list.Items {
			said = append(said, e.Message)
		}
		if !slices.Contains(said, message) {
			return fmt.Errorf("they say %q", said)
		}
		return nil
	})
}

func TestAnnotationsOfEveryBalancerCountInTheirOrder(t *testing.T) {
	c := newCluster(t)
	c.pools("    - {name: one, addresses: [192.0.2.0/28]}\n    - {name: two, addresses: [198.51.100.0/28], autoAssign: false}")
	c.start()
	asks := []string{"plinth.dev/ips", "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs", "lbipam.cilium.io/ips", "kube-vip.io/loadbalancerIPs"}
	c.service("a", func(svc *v1.Service) {
		for i, name := range asks {
			annotated(name, fmt.Sprintf("192.0.2.%d", 4+i))(svc)
		}
		annotated("metallb.io/address-pool", "one")(svc)
		annotated("metallb.universe.tf/address-pool", "two")(svc)
		svc.Spec.LoadBalancerIP = "192.0.2.9"
	})
	for i, name := range append(asks, "spec.loadBalancerIP") {
		c.has("a", fmt.Sprintf("192.0.2.%d", 4+i)) // and with each that goes, the next one counts
		c.change("a", func(svc *v1.Service) {
			if delete(svc.Annotations, name); i == len(asks) {
				svc.Spec.LoadBalancerIP = ""
			}
		})
	}
	c.has("a", "192.0.2.9") // what it holds, it keeps
	c.change("a", func(svc *v1.Service) { delete(svc.Annotations, "metallb.io/address-pool") })
	c.has("a", "198.51.100.0")

	for i, key := range []string{"plinth.dev/sharing-key", "metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip", "lbipam.cilium.io/sharing-key"} {
		name := fmt.Sprint("shares", i)
		c.service(name, annotated(key, "k"), port(int32(1000+i)))
		c.has(name, "192.0.2.0")
	}
}

func TestServicesOfLocalTrafficShareOnlyWithTheSameBackends(t *testing.T) {
	c := newCluster(t)
	c.pools(onePool)
	c.start()
	local := func(svc *v1.Service) {
		svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
		svc.Spec.Selector = map[string]string{"app": "mail"}
		annotated("plinth.dev/sharing-key", "mail")(svc)
	}
	at := annotated("plinth.dev/ips", "192.0.2.0")
	c.service("smtp", local, port(25))
	c.has("smtp", "192.0.2.0")
	c.service("imap", local, port(143), class)
	c.has("imap", "192.0.2.0")
	c.service("clash", local, port(143), at)
	c.refused("clash", "SharingPortInUse")
	c.service("other", local, port(80), at, func(svc *v1.Service) { svc.Spec.Selector["app"] = "web" })
	c.refused("other", "SharingBackendsDiffer")
	c.service("everywhere", port(81), at, annotated("plinth.dev/sharing-key", "mail"))
	c.refused("everywhere", "SharingBackendsDiffer")
	c.service("else", local, port(82), at, annotated("plinth.dev/sharing-key", "web"))
	c.refused("else", "SharingKeyDiffers")
	c.change("clash", port(993)) // and it fits
	c.has("clash", "192.0.2.0")

	web := func(svc *v1.Service) { svc.Spec.Selector["app"] = "web" }
	c.change("smtp", web) // the others stay
	c.has("smtp", "192.0.2.1")
	c.change("imap", web)
	c.has("imap", "192.0.2.1")
	c.change("clash", web) // alone, it need not move, and others may join it
	c.has("clash", "192.0.2.0")
	c.has("other", "192.0.2.0")
}
