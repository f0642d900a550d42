package importer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// TestAnImportKeepsTheOrderOfItsSource: Nodes, peers and pools stand in the inventory as they stood before, and not in that of their names.
func TestAnImportKeepsTheOrderOfItsSource(t *testing.T) {
	var docs strings.Builder
	for _, name := range []string{"w3", "w1", "w2"} {
		fmt.Fprintf(&docs, "---\napiVersion: v1\nkind: Node\nmetadata: {name: %s}\nstatus: {addresses: [{type: InternalIP, address: 192.168.1.1%s}]}\n", name, name[1:])
	}
	for i, name := range []string{"tor-z", "tor-a"} {
		fmt.Fprintf(&docs, "---\napiVersion: metallb.io/v1beta2\nkind: BGPPeer\nmetadata: {name: %s, namespace: metallb-system}\nspec: {myASN: 64514, peerASN: 64513, peerAddress: 192.168.1.%d}\n", name, i+1)
	}
	for i, name := range []string{"second", "first", "zeroth"} {
		fmt.Fprintf(&docs, "---\napiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: %s, namespace: metallb-system}\nspec: {addresses: [203.0.%d.0/24]}\n", name, 113-i)
	}
	docs.WriteString("---\napiVersion: metallb.io/v1beta1\nkind: BGPAdvertisement\nmetadata: {name: all, namespace: metallb-system}\n")
	text, notes := Import(Options{Sources: []string{"nodes", "metallb"}}, document.Document{Source: "cluster", Data: []byte(docs.String())})
	for _, list := range [][]string{{"tor-z", "tor-a"}, {"w3", "w1", "w2"}, {"second", "first", "zeroth"}} {
		last := 0
		for _, name := range list {
			at := bytes.Index(text, []byte("name: "+name))
			if at < last {
				t.Errorf("%s is not in its place, of %v, in\n%s\n%v", name, list, text, notes)
			}
			last = at
		}
	}
}
