package importer

import (
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

func TestCommunitiesOfOneNumberAreTwo(t *testing.T) {
	if got := numbersApart([]string{"4259840200", "65000:99", "0", "many"}); !slices.Equal(got, []string{"65000:200", "65000:99", "0:0", "many"}) {
		t.Error(got)
	}
}

func TestNamespacesOfASelectorAreThoseThatAllOfItAllows(t *testing.T) {
	pool := `{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: a}, spec: {blocks: [{cidr: 192.0.2.0/28}], serviceSelector: {matchExpressions: [
		{key: io.kubernetes.service.namespace, operator: In, values: [b, a, a]}, {key: io.kubernetes.service.namespace, operator: NotIn, values: [b]}]}}}`
	options, doc := Options{Sources: []string{"cilium"}}, document.Document{Source: "a", Data: []byte(pool)}
	text, notes := Import(options, doc)
	if !strings.Contains(string(text), "namespaces: [a]") || strings.Contains(string(text), "NotIn") {
		t.Errorf("%s%v", text, notes)
	}
}

func TestAPeerWithoutARouterStillChoosesAdvertisements(t *testing.T) {
	docs := document.Document{Source: "a", Data: []byte(`
{apiVersion: cilium.io/v2, kind: CiliumBGPClusterConfig, metadata: {name: a}, spec: {bgpInstances: [{localASN: 65001, peers: [{name: gateway, peerASN: 65002, autoDiscovery: {mode: DefaultGateway}, peerConfigRef: {name: a}}]}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPPeerConfig, metadata: {name: a}, spec: {families: [{afi: ipv4, safi: unicast, advertisements: {matchLabels: {a: b}}}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPAdvertisement, metadata: {name: a, labels: {a: b}}, spec: {advertisements: [{advertisementType: Service, service: {addresses: [LoadBalancerIP]}, selector: {}, attributes: {localPreference: 70}}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: a}, spec: {blocks: [{cidr: 192.0.2.0/28}]}}
`)}
	options := Options{Sources: []string{"cilium"}}
	if text, notes := Import(options, docs); !strings.Contains(string(text), "localPref: 70") || strings.Contains(string(text), "routers") {
		t.Errorf("%s%v", text, notes)
	}
	checkLaw(t, options, docs)
}
