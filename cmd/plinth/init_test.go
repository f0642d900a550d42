package main

import (
	"bufio"
	"context"
	"fmt"
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

// TestInitAsksForTheAddressesOfNodesThatReportNone: flags are taken before all, and what names resolve to is proposed.
func TestInitAsksForTheAddressesOfNodesThatReportNone(t *testing.T) {
	names := map[string][]string{"nuc1": {"192.168.1.11"}, "nuc2": {"192.168.1.12", "2001:db8::c"}}
	resolve := func(_ context.Context, name string) []string { return names[name] }
	nodes := []string{"nuc1", "nuc2", "nuc3"}
	for name, c := range map[string]struct {
		flags []string
		yes   bool
		typed string
		want  string // what each has, or a part of the error
		says  string
	}{
		"all that is proposed": {yes: true, want: "map[nuc1:[192.168.1.11] nuc2:[192.168.1.12 2001:db8::c] nuc3:[]]", says: "Node nuc1 reports no address: taken is what its name resolves to here, 192.168.1.11"},
		"flags":                {flags: []string{"nuc1=10.0.0.1", "nuc1=fd00::1", "nuc3=10.0.0.3"}, yes: true, want: "map[nuc1:[10.0.0.1 fd00::1] nuc2:[192.168.1.12 2001:db8::c] nuc3:[10.0.0.3]]"},
		"typed":                {typed: "\n192.168.1.22\n192.168.1.300\n192.168.1.13\n", want: "map[nuc1:[192.168.1.11] nuc2:[192.168.1.22] nuc3:[192.168.1.13]]", says: "Address of Node nuc3, which reports none []: "},
		"nobody answers":       {typed: "\n", want: "no answer: say it by --address"},
		"not a Node":           {flags: []string{"nuc9=10.0.0.9"}, want: "--address nuc9=10.0.0.9: say NODE=ADDRESS for a Node that reports no address; these are: nuc1, nuc2, nuc3"},
		"no Node":              {flags: []string{"10.0.0.9"}, want: "say NODE=ADDRESS"},
		"no address":           {flags: []string{"nuc1=ten"}, want: "--address: ParseAddr"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			q := asker{in: bufio.NewScanner(strings.NewReader(c.typed)), out: &out, quiet: c.yes}
			got, err := start{address: c.flags}.addresses(t.Context(), &q, nodes, resolve)
			if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v; want %s", text, err, c.want)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it says %q", out.String())
			}
		})
	}
}
