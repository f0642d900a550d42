package importer

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// TestNotesSayWhatIsWrong where it stands, and what to do.
func TestNotesSayWhatIsWrong(t *testing.T) {
	const peer = `{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor}, spec: {myASN: 65001, peerASN: 65101, peerAddress: 10.9.0.1, `
	for name, c := range map[string]struct {
		sources, text string
		want, never   []string
	}{
		"a Node that is not asked for": {sources: "metallb,cilium,kube-vip", text: `{apiVersion: v1, kind: Node, metadata: {name: w1}}`,
			want: []string{"the import of metallb, cilium and kube-vip reads: plinth import nodes does"}},
		"a pool of another program": {sources: "cilium", text: strings.Split(joinedMLB, "---")[0], want: []string{"the import of cilium reads: plinth import metallb does"}},
		"what nobody reads":         {sources: "metallb", text: `{apiVersion: v1, kind: Secret, metadata: {name: a}}`, want: []string{"the import of metallb reads"}, never: []string{"does"}},
		"a pool without addresses": {sources: "metallb", text: `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: a}, spec: {addresses: [127.0.0.0/8, 10.0.0.0/99]}}`,
			want: []string{"has no address that a pool can have (127.0.0.0/8 has addresses that no router carries): the pool is left out"}},
		"one alias in two objects": {sources: "metallb", text: `{apiVersion: metallb.io/v1beta1, kind: Community, metadata: {name: a}, spec: {communities: [{name: x, value: "1:2"}]}}
---
{apiVersion: metallb.io/v1beta1, kind: Community, metadata: {name: b}, spec: {communities: [{name: x, value: "1:2"}, {name: x, value: "1:3"}]}}`, want: []string{`x: "1:2"`, `x-2: "1:3"`}},
		"addresses that avoidBuggyIPs leaves out": {sources: "metallb", text: `{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: a}, spec: {avoidBuggyIPs: true, addresses: [192.0.2.0/23, 198.51.100.255/32, 198.51.101.0/32]}}`,
			want: []string{`exclude: [192.0.2.0, "192.0.2.255-192.0.3.0", 192.0.3.255, 198.51.100.255, 198.51.101.0]`}},
		"a kube-vip whose control plane voted by Raft": {sources: "kube-vip", text: `{apiVersion: v1, kind: Pod, metadata: {name: k}, spec: {containers: [{image: kube-vip, env: [{name: svc_enable, value: "true"}, {name: vip_arp, value: "true"}, {name: vip_localpeer, value: "a:1"}]}]}}`,
			never: []string{"vip_localpeer"}},
		"a kube-vip on Nodes that an operator of numbers chooses": {sources: "kube-vip", text: `{apiVersion: v1, kind: Pod, metadata: {name: k}, spec: {nodeSelector: {rack: r7}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: size, operator: Gt, values: ["4"]}]}]}}},
  containers: [{image: kube-vip, args: [manager, --services, --bgp, --localAS=65001, --peerAddress=10.0.0.1]}]}}`,
			want: []string{"the operator Gt is not read", "name: r7"}, never: []string{"size"}},
		"an advertisement of no pool": {sources: "metallb", text: `{apiVersion: metallb.io/v1beta1, kind: BGPAdvertisement, metadata: {name: a}, spec: {ipAddressPools: [gone], nodeSelectors: [{matchLabels: {rack: r7}}]}}`,
			want: []string{"chooses no IPAddressPool"}, never: []string{"r7"}},
		"a password beside a Secret": {sources: "metallb", text: peer + `password: hidden, passwordSecret: {name: here}}}`,
			want: []string{"spec.password: there is a passwordSecret, too", "secret: here"}, never: []string{"hidden"}},
		"an interface beside an address": {sources: "metallb", text: peer + `interface: eth1}}`, want: []string{"spec.interface: there is a peerAddress, too", "address: 10.9.0.1"}},
		"no name of a Secret":            {sources: "metallb", text: peer + `passwordSecret: {name: TheirName}}}`, want: []string{`no Secret can be called "TheirName"`, "name: tor"}, never: []string{"passwordFrom:", "kubectl"}},
		"no name of a Secret of Cilium's": {sources: "cilium", text: joinedCilium + `
---
{apiVersion: cilium.io/v2, kind: CiliumBGPPeerConfig, metadata: {name: c}, spec: {authSecretRef: TheirName}}
---
{apiVersion: cilium.io/v2, kind: CiliumBGPClusterConfig, metadata: {name: two}, spec: {bgpInstances: [{name: one, localASN: 65001, peers: [
  {name: a, peerASN: 65102, peerAddress: 10.9.0.3, peerConfigRef: {name: c}}, {name: b, peerASN: 65102, peerAddress: 10.9.0.4, peerConfigRef: {name: c}}]}]}}`,
			want: []string{`no Secret can be called "TheirName"`, "name: a", "name: b"}, never: []string{"passwordFrom:", "kubectl"}},
	} {
		t.Run(name, func(t *testing.T) {
			options, doc := Options{Sources: strings.Split(c.sources, ",")}, document.Document{Source: "x", Data: []byte(c.text)}
			said := told(Import(options, doc))
			for _, part := range c.want {
				if strings.Count(said, part) != 1 {
					t.Errorf("%q is there %d times", part, strings.Count(said, part))
				}
			}
			for _, part := range c.never {
				if strings.Contains(said, part) {
					t.Errorf("%q is there", part)
				}
			}
			if t.Failed() {
				t.Log(said)
			}
			checkLaw(t, options, doc)
		})
	}
}
