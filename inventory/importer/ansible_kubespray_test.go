package importer

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

func TestAPeerOfKubesprayHasItsOwnSettingsBeforeTheDefaults(t *testing.T) {
	const config = "address_pools: {a: {ip_range: [10.9.0.0/24]}}, layer3: {defaults: {peer_port: 180, hold_time: 30s}, metallb_peers: {tor: {peer_address: 10.0.0.254, peer_asn: 1, my_asn: 2, address_pool: [a]%s}}}"
	for own, want := range map[string]string{
		"": "port: 180\n      holdTime: 30s\n", ", peer_port: 181": "port: 181\n      holdTime: 30s\n", ", hold_time: 12s": "port: 180\n      holdTime: 12s\n", ", multihop: true": "multihop: 255\n",
		", peer_port: x": "peer_port: is no port", ", hold_time: 1s": "hold_time: Plinth has whole seconds", ", multihop: false": "asn: 1\n", ", aggregation_length: 31": "aggregation_length: kubespray aggregates",
		", aggregation_length: 26": "26", ", localpref: 300": "localpref: kubespray writes it", ", communities: [nopeer]": "65535:65284",
	} {
		docs := []document.Document{{Source: "hosts", Data: []byte("w1 ip=10.0.0.1")}, {Source: "group_vars/all.yml", Data: []byte("metallb_config: {" + fmt.Sprintf(config, own) + "}")}}
		out, notes := Import(Options{Sources: []string{"ansible"}}, docs...)
		if !strings.Contains(told(out, notes), want) {
			t.Errorf("%s: %s", own, told(out, notes))
		}
		checkLaw(t, Options{Sources: []string{"ansible"}}, docs...)
	}
}
