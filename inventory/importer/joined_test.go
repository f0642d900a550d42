package importer

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

const (
	joinedNode = `{apiVersion: v1, kind: Node, metadata: {name: w1, labels: {r: z1, topology.kubernetes.io/zone: zone-a}}, status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}`
	joinedMLB  = `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: default}, spec: {addresses: [10.6.0.0/24, 10.5.0.0/25]}}
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: all}}
---
{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor}, spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.9.0.1, nodeSelectors: [{matchLabels: {rack: a}}]}}`
	mlbPeer = `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor-b}, spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.9.0.1, holdTime: 30s, nodeSelectors: [{matchLabels: {w: b}}]}}`
	mlbPool = `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: default}, spec: {addresses: [10.5.0.0/25]}}`
	mlbLink = mlbPool + `
---
{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: all}}
---
{apiVersion: metallb.io/v1beta1, kind: L2Advertisement, metadata: {name: lan}, spec: {ipAddressPools: [default]}}`
	ciliumLink = `{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: default}, spec: {blocks: [{cidr: 10.5.0.128/25}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPPeerConfig, metadata: {name: tor}, spec: {families: [{afi: ipv4, safi: unicast, advertisements: {matchLabels: {a: b}}}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPAdvertisement, metadata: {name: vips, labels: {a: b}}, spec: {advertisements: [{advertisementType: Service, service: {addresses: [LoadBalancerIP]}, selector: {}}]}}
---
{apiVersion: cilium.io/v2alpha1, kind: CiliumL2AnnouncementPolicy, metadata: {name: lan}, spec: {loadBalancerIPs: true}}`
	otherNode      = `{apiVersion: v1, kind: Node, metadata: {name: w2, labels: {r: z2, topology.kubernetes.io/zone: zone-a}}, status: {addresses: [{type: InternalIP, address: 10.0.0.2}]}}`
	staticPod      = `{apiVersion: v1, kind: Pod, metadata: {name: kv-w1, namespace: kube-system, ownerReferences: [{kind: Node, name: w1}]}, spec: {nodeName: w1, containers: [{name: kv, image: "x/kube-vip:v1", env: [{name: svc_enable, value: "true"}, {name: bgp_enable, value: "true"}, {name: bgp_as, value: "65001"}, {name: bgp_peeraddress, value: 10.9.0.7}, {name: bgp_peeras, value: "65107"}]}]}}`
	ciliumFamilies = `{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: default}, spec: {blocks: [{cidr: 10.5.0.128/25}, {cidr: "2001:db8::/120"}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPClusterConfig, metadata: {name: all}, spec: {bgpInstances: [{name: one, localASN: 65001, peers: [{name: tor, peerASN: 65001, peerAddress: 10.9.0.2, peerConfigRef: {name: tor}}]}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPPeerConfig, metadata: {name: tor}, spec: {families: [{afi: ipv4, safi: unicast, advertisements: {matchLabels: {a: b}}}, {afi: ipv6, safi: unicast, advertisements: {matchExpressions: [{key: a, operator: Exists}]}}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPAdvertisement, metadata: {name: all, labels: {a: b}}, spec: {advertisements: [{advertisementType: Service, service: {addresses: [LoadBalancerIP]}, selector: {}}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPAdvertisement, metadata: {name: six, labels: {a: six}}, spec: {advertisements: [{advertisementType: Service, service: {addresses: [LoadBalancerIP]}, selector: {matchLabels: {c: d}}, attributes: {localPreference: 200}}]}}`
	joinedCilium = `{apiVersion: cilium.io/v2, kind: CiliumLoadBalancerIPPool, metadata: {name: default}, spec: {blocks: [{cidr: 10.5.0.128/25}, {cidr: 10.6.0.128/28}]}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPClusterConfig, metadata: {name: all}, spec: {bgpInstances: [{name: one, localASN: 65001, peers: [{name: tor, peerASN: 65102, peerAddress: 10.9.0.2}]}]}}`
	joinedNetBox = `[{"id": 1, "url": "https://netbox/api/dcim/devices/1/", "name": "w9", "device_type": {"slug": "x"}, "role": {"slug": "k8s-node"}, "site": {"slug": "s"}, "location": {"slug": "hall"}, "rack": {"name": "a"},
  "serial": "", "status": {"value": "active"}, "primary_ip4": {"address": "10.0.0.9/24"}}]`
	joinedAddress = `{"count": 1, "next": null, "results": [{"id": 7, "url": "https://netbox/api/ipam/ip-addresses/7/", "address": "10.6.0.9/24", "status": {"value": "active"}}]}`
	joinedVIP     = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kv, namespace: kube-system}, spec: {template: {spec: {containers: [{name: kv, image: "x/kube-vip:v1", env: [{name: cp_enable, value: "true"}, {name: address, value: 10.5.0.7}]}]}}}}`
	joinedHosts   = "[kube_node]\nw9 ip=10.0.0.9 r=z1 zone=b\n"
)

// TestSourcesThatAreJoined hold what each of them says, beside what the others say.
func TestSourcesThatAreJoined(t *testing.T) {
	for name, c := range map[string]struct {
		sources string
		rackBy  string
		texts   []string
		want    []string
		never   []string
	}{
		"pools and routers of one name": {sources: "metallb,cilium", texts: []string{joinedMLB, joinedCilium},
			want: []string{"- name: default\n", "- name: default-2\n", "- name: tor\n", "- name: tor-2\n", "10.6.0.128/28 has addresses that pool default has already"}},
		"a peer with node selectors, and machines without labels": {sources: "netbox,metallb", texts: []string{joinedNetBox, joinedMLB},
			want: []string{"- name: a\n      zone: hall\n      routers:\n        # from BGPPeer/tor\n"}, never: []string{"left out"}},
		"an address that is given to somebody, and a pool of another source": {sources: "netbox,metallb", texts: []string{joinedNetBox, joinedAddress, joinedMLB}, want: []string{"exclude: [10.6.0.9]"}},
		"the control plane's address, and a pool of another source":          {sources: "kube-vip,metallb,cilium", texts: []string{joinedVIP, joinedMLB, joinedCilium}, want: []string{"exclude: [10.5.0.7]"}},
		"a rack that has its zone": {sources: "nodes,ansible", rackBy: "r", texts: []string{joinedNode, joinedHosts},
			want: []string{"- name: z1\n      zone: zone-a\n", `"b"; other machines of rack z1 have "zone-a"`}},
		"a rack of a device that has its zone": {sources: "nodes,netbox", rackBy: "r", texts: []string{strings.Replace(joinedNode, "r: z1", "r: a", 1), joinedNetBox},
			want: []string{"- name: a\n      zone: zone-a\n", `"hall"; other devices of rack a are in "zone-a"`}},
		"an address twice on one Node": {sources: "nodes", texts: []string{strings.Replace(joinedNode, "[{type", "[{type: ExternalIP, address: 10.0.0.1}, {type", 1)},
			want: []string{"InternalIP 10.0.0.1 is there already"}},
		"a pool that no router carries": {sources: "metallb", texts: []string{strings.Replace(joinedMLB, "10.6.0.0/24", "224.0.0.0/24", 1)}, want: []string{"224.0.0.0/24 has addresses that no router carries: it is left out"}},
		"a router on loopback":          {sources: "cilium", texts: []string{strings.Replace(joinedCilium, "10.9.0.2", "127.0.0.1", 1)}, want: []string{"127.0.0.1 is no address that other machines reach it by"}},
		"a router of kube-vip's that is there already": {sources: "metallb,kube-vip", texts: []string{joinedMLB, strings.Replace(joinedVIP, "env: [", "env: [{name: svc_enable, value: '1'}, {name: bgp_enable, value: '1'}, {name: bgp_peeraddress, value: 10.9.0.1}, {name: bgp_peeras, value: '65199'}, {name: bgp_peerpass, valueFrom: {secretKeyRef: {name: gone, key: k}}}, ", 1)},
			want: []string{"10.9.0.1 is there already", "bgp_peeras: no router is made of it: see bgp_peeraddress", "bgp_peerpass: no router"}, never: []string{"65199", "secret: gone"}},
		"a device with another name, and the address of a Node": {sources: "nodes,netbox", texts: []string{strings.Replace(joinedNode, "10.0.0.1}", "10.0.0.9}", 1), joinedNetBox},
			want: []string{`device/w9 primary_ip4.address: machine w1 of another source has the same address, 10.0.0.9: it is taken for this device, "w9"`}, never: []string{"- name: w9"}},
		"a device with another name, and the id of a Node": {sources: "nodes,netbox", texts: []string{strings.Replace(joinedNode, "status", "spec: {providerID: 'plinth://SN-7'}, status", 1), strings.Replace(joinedNetBox, `"serial": ""`, `"serial": "SN-7"`, 1)},
			want: []string{"device/w9 serial: machine w1 of another source has the same id, SN-7"}, never: []string{"- name: w9"}},
		"a device of a site, and Nodes of a region": {sources: "nodes,netbox", texts: []string{strings.Replace(joinedNode, "r: z1", "r: z1, topology.kubernetes.io/region: fra", 1), joinedNetBox},
			want: []string{"- name: w9\n", "region: fra\n", `device/w9 site.slug: "s"; another source says region "fra"`}},
		"AS numbers of a kube-vip whose routers are left out": {sources: "nodes,kube-vip", texts: []string{joinedNode, strings.Replace(joinedVIP, "env: [", "env: [{name: svc_enable, value: '1'}, {name: bgp_enable, value: '1'}, {name: bgp_as, value: '65007'}, {name: bgp_hold_time, value: '9'}, {name: bgp_peeraddress, value: 10.0.0.1}, ", 1)},
			want: []string{"asn: 65007", "bgp_hold_time: no router is made", "10.0.0.1 is the address of machine w1"}},
		"a part of a Node selector that chooses nothing": {sources: "nodes,metallb", texts: []string{joinedNode, strings.Replace(strings.Replace(joinedNode, "w1", "w2", 1), "10.0.0.1", "10.0.0.2", 1), strings.Replace(joinedMLB, "[{matchLabels: {rack: a}}]", "[{matchExpressions: [{key: r, operator: In, values: [z1, z9]}, {key: never, operator: DoesNotExist}]}, {matchLabels: {r: z8}}]", 1)},
			want: []string{`values[1]: without "z9" the same Nodes are chosen`, "matchExpressions[1]: without !never the same Nodes are chosen", "nodeSelectors[1]: r=z8 chooses no Node that was read"}},
		"two peers of one router": {sources: "metallb", texts: []string{joinedMLB, "---\n" + strings.Replace(mlbPeer, "w: b", "rack: b", 1)},
			want:  []string{"# from BGPPeer/tor\n        # from BGPPeer/tor-b\n        - name: tor\n", "- name: b\n      peers: [tor]", "spec.holdTime: router tor has one kind of session with all machines: what BGPPeer/tor says"},
			never: []string{"left out"}},
		"two peers of one router, one of all machines": {sources: "metallb", texts: []string{joinedMLB, strings.Replace(mlbPeer, ", nodeSelectors: [{matchLabels: {w: b}}]", "", 1)},
			want: []string{"BGPPeer/tor spec.nodeSelectors: all machines have sessions with router tor"}, never: []string{"left out", "tor-b\n        - name"}},
		"a router that sees another AS number": {sources: "metallb", texts: []string{strings.Replace(joinedMLB, "myASN: 65001", "myASN: 65001, localASN: 65009", 1)},
			want: []string{"asn: 65009", "spec.myASN: the machines have the AS number that the router sees, 65009"}},
		"routers that see several AS numbers": {sources: "metallb", texts: []string{strings.Replace(joinedMLB, "myASN: 65001", "myASN: 65001, localASN: 65009", 1), strings.NewReplacer("w: b", "rack: a", "10.9.0.1", "10.9.0.2").Replace(mlbPeer)},
			want: []string{"asn: 65001", "the router expects AS 65009 of the machines, and BGPPeer/tor-b has them show 65001", "the session does not come up"}},
		"a router that sees the speaker's own AS number": {sources: "metallb", texts: []string{strings.Replace(joinedMLB, "myASN: 65001", "myASN: 65001, localASN: 65001", 1)}, want: []string{"asn: 65001"}, never: []string{"localASN"}},
		"a pool of all routers, and routers of another source": {sources: "metallb,cilium", texts: []string{joinedMLB, joinedCilium},
			want: []string{"- name: default\n      addresses: [10.6.0.0/24, 10.5.0.0/25]\n      advertise:\n        routers: [tor]\n"}},
		"a pool of all routers, and one by hand": {sources: "metallb,cilium", texts: []string{joinedMLB + "\n---\n" + strings.NewReplacer("w: b", "rack: b", "10.9.0.1", "127.0.0.1").Replace(mlbPeer), joinedCilium},
			want: []string{"127.0.0.1 is no address", "addresses: [10.6.0.0/24, 10.5.0.0/25]\n    # from CiliumLoadBalancerIPPool"}},
		"a pool on the link and over BGP, and nobody who speaks it": {sources: "nodes,metallb", texts: []string{strings.Replace(joinedNode, "10.0.0.1", "10.5.0.200", 1), mlbLink},
			want: []string{"advertise:\n        via: link\n", "BGPAdvertisement/all spec: no BGPPeer was read, and an L2Advertisement chooses pool default, too"}},
		"a pool on the link and over BGP, and one over BGP": {sources: "nodes,metallb", texts: []string{strings.Replace(joinedNode, "10.0.0.1", "10.5.0.200", 1), mlbLink + "\n---\n" + strings.NewReplacer("default", "far", "10.5.0.0/25", "10.7.0.0/24").Replace(mlbPool)},
			want: []string{"# from BGPAdvertisement/all\n    - name: far\n      addresses: [10.7.0.0/24]\n  racks", "L2Advertisement/lan\n    - name: default\n", "        via: link\n", "BGPAdvertisement/all spec: no BGPPeer"}},
		"Cilium's pool on the link and over BGP, and nobody who speaks it": {sources: "nodes,cilium", texts: []string{strings.Replace(joinedNode, "10.0.0.1", "10.5.0.200", 1), ciliumLink},
			want: []string{"via: link", "no CiliumBGPClusterConfig was read, and a CiliumL2AnnouncementPolicy answers"}},
		"an advertisement for one of two peers of a router": {sources: "metallb", texts: []string{strings.Replace(joinedMLB, "{name: all}}", "{name: all}, spec: {peers: [tor]}}", 1), strings.Replace(mlbPeer, "w: b", "rack: b", 1)},
			want: []string{`spec.peers: BGPPeer "tor-b" is router tor, too`}},
		"a static Pod of kube-vip's": {sources: "nodes,kube-vip", rackBy: "r", texts: []string{joinedNode, otherNode, staticPod},
			want: []string{"- name: z1\n      zone: zone-a\n      routers:\n        # from Pod/kv-w1\n", "- name: z2\n      zone: zone-a\n      machines"}},
		"static Pods of kube-vip's on all machines": {sources: "nodes,kube-vip", rackBy: "r", texts: []string{joinedNode, otherNode, staticPod, strings.ReplaceAll(staticPod, "w1", "w2")},
			want: []string{"spec:\n  bgp:", "routers:\n    # from Pod/kv-w1\n"}},
		"static Pods of kube-vip's, and no Nodes": {sources: "kube-vip", texts: []string{staticPod, strings.ReplaceAll(staticPod, "w1", "w2")},
			want: []string{"Pod/kv-w1 spec.nodeName: runs on Node w1 and w2, whose rack nobody knows here"}},
		"a static Pod of kube-vip's on a part of a rack": {sources: "nodes,kube-vip", texts: []string{joinedNode, strings.Replace(strings.Replace(joinedNode, "w1", "w3", 1), "10.0.0.1", "10.0.0.3", 1), otherNode, staticPod},
			want: []string{"Pod/kv-w1 spec.nodeName: chooses a part of rack zone-a (1 of 3 machines: w1)", "- name: zone-a\n      routers:"}},
		"a static Pod of kube-vip's elsewhere": {sources: "nodes,kube-vip", texts: []string{joinedNode, strings.ReplaceAll(staticPod, "w1", "w7")},
			want: []string{"Pod/kv-w7 spec.nodeName: runs on none of the Nodes that were read"}, never: []string{"10.9.0.7"}},
		"a peer of kube-vip's by flag alone": {sources: "kube-vip", texts: []string{strings.NewReplacer("{name: bgp_peeraddress, value: 10.9.0.7}, ", "", "env:", "args: [manager, --peerAddress, 10.9.0.7], env:").Replace(staticPod)},
			want: []string{"--peerAddress: kube-vip reads this flag where it writes a manifest", "bgp_peeras: no router is made of it: there is no bgp_peeraddress"}, never: []string{"routers:"}},
		"a kube-vip with two modes": {sources: "kube-vip", texts: []string{strings.Replace(staticPod, "env: [", "env: [{name: vip_arp, value: '1'}, ", 1)},
			want: []string{"kube-vip v1.2 does not start so"}, never: []string{"routers:"}},
		"a device with the address of a Node, and another serial number": {sources: "nodes,netbox", texts: []string{strings.Replace(strings.Replace(joinedNode, "status", "spec: {providerID: 'plinth://SN-7'}, status", 1), "10.0.0.1}", "10.0.0.9}", 1), strings.Replace(joinedNetBox, `"serial": ""`, `"serial": "SN-8"`, 1)},
			want: []string{"- name: w1\n          id: SN-7\n", "- name: w9\n          id: SN-8\n", `device/w9 serial: "SN-8"; machine w1 of another source has the same address, 10.0.0.9, and the id "SN-7"`, "10.0.0.9/24 is the address of machine w1, too"}},
		"two devices of one name": {sources: "netbox", texts: []string{joinedNetBox, strings.ReplaceAll(strings.Replace(joinedNetBox, `"id": 1`, `"id": 2`, 1), "devices/1", "devices/2")},
			want: []string{"give each the name of its Node in NetBox"}},
		"custom fields beside asn": {sources: "netbox", texts: []string{strings.Replace(joinedNetBox, `"serial"`, `"custom_fields": {"asn": 65001, "bmc": "10.0.0.3", "empty": null}, "serial"`, 1)},
			want: []string{"asn: 65001", "an inventory has none such: custom_fields.bmc (1)"}},
		"Cilium's families with other advertisements, and preferences": {sources: "cilium", texts: []string{ciliumFamilies},
			want: []string{"CiliumBGPPeerConfig/tor spec.families[1]: ipv6 has the advertisements all and six, and ipv4 all: in the inventory each is of both families",
				"CiliumBGPAdvertisement/all spec: localPreference is 100, and CiliumBGPAdvertisement/six has 200 of pool default: Services and routers that both are of get the higher one"}},
		"Cilium's peers of nobody": {sources: "nodes,cilium", texts: []string{joinedNode, strings.Replace(joinedCilium, "spec: {bgp", "spec: {nodeSelector: {matchLabels: {rack: none}}, bgp", 1)},
			want: []string{"no Node that was read has these labels: its routers are left out"}, never: []string{"name: tor"}},
	} {
		t.Run(name, func(t *testing.T) {
			var docs []document.Document
			for _, text := range c.texts {
				source := "x.yaml"
				if strings.HasPrefix(text, "[kube") {
					source = "inventory.ini"
				}
				docs = append(docs, document.Document{Source: source, Data: []byte(text)})
			}
			text, notes := Import(Options{Sources: strings.Split(c.sources, ","), RackBy: c.rackBy}, docs...)
			said := told(text, notes)
			for _, part := range c.want {
				if !strings.Contains(said, part) {
					t.Errorf("%q is not in", part)
				}
			}
			for _, part := range c.never {
				if strings.Contains(said, part) {
					t.Errorf("%q is in", part)
				}
			}
			if text == nil || t.Failed() {
				t.Errorf("%s", said)
			}
			checkLaw(t, Options{Sources: strings.Split(c.sources, ","), RackBy: c.rackBy}, docs...)
		})
	}
}
