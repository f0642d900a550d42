package main

import (
	"strings"
	"testing"
)

func TestInitRefusesFlagsThatWouldNotCount(t *testing.T) {
	for _, test := range []struct {
		name      string
		start     start
		balancers []string
		want      string
	}{
		{"a router and a network", start{router: "192.168.1.1", network: "192.168.1.0/24"}, nil, "say one of them"},
		{"a router beside MetalLB", start{router: "192.168.1.1"}, []string{"metallb"}, "those of metallb"},
		{"an AS number beside MetalLB and Cilium", start{asn: "64514"}, []string{"metallb", "cilium"}, "those of metallb and cilium"},
		{"a network beside Cilium", start{network: "192.168.1.0/24"}, []string{"cilium"}, "cilium says where"},
		{"a router alone", start{router: "192.168.1.1", routerASN: "64513", asn: "64514"}, nil, ""},
		{"addresses beside MetalLB", start{pool: []string{"203.0.113.0/28"}}, []string{"metallb"}, ""},
	} {
		err := test.start.check(test.balancers)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
