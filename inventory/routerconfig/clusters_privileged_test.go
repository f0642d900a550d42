//go:build privileged

package routerconfig

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory/document"
)

// clusterText is the side of a router that two clusters share, for one of them.
func clusterText(t *testing.T, language, cluster string, host int, pool string) string {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: cluster, Data: fmt.Appendf(nil, `
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: %s}
spec:
  bgp: {asn: 64514}
  routers: [{name: gateway, address: 192.168.1.1, asn: 64513}]
  racks: [{name: shelf, machines: [{name: %[1]s1, addresses: [192.168.1.%d]}]}]
  pools: [{name: default, addresses: [%s]}]
`, cluster, host, pool)})
	if inv == nil {
		t.Fatal(problems)
	}
	text, err := Render(inv, "gateway", language, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTwoClustersShareARouter is what docs/guides/two-clusters.md does: the second cluster's
// names are replaced, so that each cluster's machines bring in their own VIPs alone.
func TestTwoClustersShareARouter(t *testing.T) {
	red, blue := clusterText(t, "frr", "red", 11, "192.168.50.0/26"), clusterText(t, "frr", "blue", 21, "192.168.50.64/26")
	f := startFRR(t)
	for _, text := range []string{red, strings.ReplaceAll(blue, "PLINTH_", "BLUE_")} {
		f.write("frr.conf", text)
		if out := f.run("vtysh", "--vty_socket", f.dir, "--config_dir", f.dir, "-f", f.path("frr.conf")); strings.Contains(out, "%") {
			t.Fatalf("FRR does not take it:\n%s", out)
		}
	}
	runs := f.run("vtysh", "--vty_socket", f.dir, "--config_dir", f.dir, "-c", "show running-config")
	for _, want := range []string{
		"neighbor 192.168.1.11 peer-group PLINTH_SHELF", "neighbor PLINTH_SHELF route-map PLINTH_IN in",
		"neighbor 192.168.1.21 peer-group BLUE_SHELF", "neighbor BLUE_SHELF route-map BLUE_IN in",
		"ip prefix-list PLINTH_VIP4 seq 5 permit 192.168.50.0/26 ge 32 le 32", "ip prefix-list BLUE_VIP4 seq 5 permit 192.168.50.64/26 ge 32 le 32",
	} {
		if !strings.Contains(runs, want) {
			t.Errorf("FRR lacks %q in\n%s", want, runs)
		}
	}
	// As printed both have the same names: what the guide warns of.
	const list = "ip prefix-list PLINTH_VIP4 seq 5 permit "
	if !strings.Contains(red, list) || !strings.Contains(blue, list) {
		t.Errorf("the names of two clusters do not meet any more, and the guide says that they do:\n%s\n%s", red, blue)
	}
}

func TestTwoClustersShareARouterWithBIRD(t *testing.T) {
	red, blue := clusterText(t, "bird", "red", 11, "192.168.50.0/26"), clusterText(t, "bird", "blue", 21, "192.168.50.64/26")
	bird := parsers["bird"]
	parse(t, bird.command, []byte(bird.around+red+strings.ReplaceAll(blue, "plinth_", "blue_")))
}
