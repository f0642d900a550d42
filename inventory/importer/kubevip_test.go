package importer

import (
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

func TestPeersOfKubeVIPAreRead(t *testing.T) {
	for _, c := range []struct{ text, address, err, told string }{
		{text: "10.0.0.1:65000", address: "10.0.0.1"},
		{text: "[fd00::2]:65000:hidden", address: "fd00::2"},
		{text: "10.0.0.1:65000:::1790", address: "10.0.0.1", told: "port 179"},
		{text: "10.0.0.1:65000::::mpbgp_nexthop=auto_sourceif", address: "10.0.0.1", told: "next hop"},
		{text: "10.0.0.1:65000:::::true;300;300;3", address: "10.0.0.1", told: "microseconds"},
		{text: "10.0.0.1:65000:::::true;300000;100000;3", address: "10.0.0.1", told: "one interval"},
		{text: "10.0.0.1:65000:::::true;90000000;90000000;3", address: "10.0.0.1", told: "too seldom"},
		{text: "10.0.0.1:65000:::::true;many;300000;3", address: "10.0.0.1", told: "RECEIVE"},
		{text: "10.0.0.1:65000:::::false;;;", address: "10.0.0.1"},
		{text: "10.0.0.1:65000:::::true;1", address: "10.0.0.1", err: "BFD is not written"},
		{text: "hidden:65000:x:false", err: "does not begin with an address"},
		{text: "10.0.0.1:65000:secret:true:hidden:hidden:true;hidden;hidden;hidden", address: "10.0.0.1", told: "MULTIPLIER"},
		{text: "10.0.0.1:65000:secret:true:::hidden", err: "BFD is not written"},
		{text: "10.0.0.1", address: "10.0.0.1", err: "no AS number"},
		{text: "10.0.0.1:0:hidden", address: "10.0.0.1", err: "no AS number"},
		{text: "10.0.0.1:1:hidden:maybe", address: "10.0.0.1", err: "neither true nor false"},
		{text: "[fd00::2", err: "no ]"},
		{text: "unnumbered:eth1:65000:hidden", err: "fe80::1%eth0"},
	} {
		p, err := parseKubeVIPPeer(c.text)
		said := strings.Join(p.notes, "; ")
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v, want %q", c.text, err, c.err)
			}
		} else if err != nil || p.address != c.address || !strings.Contains(said, c.told) || c.told == "" && said != "" {
			t.Errorf("%q: %+v, %v", c.text, p, err)
		}
		if err != nil {
			said += err.Error()
		}
		if strings.Contains(said, "hidden") {
			t.Errorf("%q: the password is printed: %s", c.text, said)
		}
	}
}

func TestRangesThatOverlapAreOne(t *testing.T) {
	for want, parts := range map[string][]string{
		"10.0.0.0/24":                       {"10.0.0.0/25", "10.0.0.0/24", "10.0.0.7"},
		"10.0.0.1-10.0.0.9":                 {"10.0.0.1-10.0.0.3", "10.0.0.7-10.0.0.9", "10.0.0.2-10.0.0.8"},
		"10.0.0.1-10.0.0.3 10.0.0.5 fd00::": {"10.0.0.1-10.0.0.3", "10.0.0.5", "fd00::"},
	} {
		var all []inventory.Range
		for _, text := range parts {
			one, err := document.ParseRange(text)
			if err != nil {
				t.Fatal(err)
			}
			all = union(all, one)
		}
		var got []string
		for _, r := range all {
			got = append(got, r.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v make %v, want %v", parts, got, want)
		}
	}
}

func TestImagesAreKnownByTheLastPartOfTheirName(t *testing.T) {
	for image, want := range map[string]string{
		"ghcr.io/kube-vip/kube-vip:v1.2.3": "kube-vip", "localhost:5000/kube-vip-iptables@sha256:12": "kube-vip-iptables", "kube-vip": "kube-vip", "nginx:1": "nginx", "": "",
	} {
		if got := imageName(image); got != want {
			t.Errorf("%s is %q, want %q", image, got, want)
		}
	}
}

func TestTheDaemonsPasswordIsNotPrinted(t *testing.T) {
	pod := `{apiVersion: v1, kind: Pod, metadata: {name: kube-vip, namespace: kube-system}, spec: {containers: [{image: kube-vip, env: [
		{name: svc_enable, value: "true"}, {name: bgp_enable, value: "true"}, {name: bgp_peers, value: "10.0.0.1:65001:hidden"},
		{name: bgp_peeraddress, value: 10.0.0.2}, {name: bgp_peerpass, value: hidden}]}]}}`
	text, notes := Import(Options{Sources: []string{"kube-vip"}}, document.Document{Source: "pod", Data: []byte(pod)})
	if all := told(text, notes); strings.Contains(all, "hidden") || strings.Count(string(text), "passwordFrom") != 2 {
		t.Error(all)
	}
}

func TestEachVariableOfKubeVIPIsInOneList(t *testing.T) {
	seen := map[string]bool{}
	for name := range kubeVIPNoted {
		seen[name] = true
	}
	for _, name := range append(append([]string{}, kubeVIPMeaningless...), kubeVIPRead...) {
		if seen[name] || name != strings.ToLower(name) {
			t.Errorf("%s is there twice, or has capitals", name)
		}
		seen[name] = true
	}
}
