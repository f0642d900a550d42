package importer

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
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
			options, doc := Options{Sources: strings.Split(c.sources, ",")}, inventory.Document{Source: "x", Data: []byte(c.text)}
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
