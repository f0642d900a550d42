package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
	look := lookIn(map[string]string{"nuc1": "192.168.1.11", "nuc2": "192.168.1.12 2001:db8::c"})
	used := []netip.Prefix{netip.MustParsePrefix("192.168.1.9/32")}
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
		"flags with commas":    {flags: []string{"nuc1=10.0.0.1,fd00::1,nuc2=10.0.0.2"}, yes: true, want: "map[nuc1:[10.0.0.1 fd00::1] nuc2:[10.0.0.2] nuc3:[]]"},
		"typed wrongly":        {typed: "127.0.0.1\nfe80::1%eth0\n10.0.0.1,10.0.0.1\n192.168.1.9\n10.0.0.1\n10.0.0.1\n10.0.0.2\n10.0.0.3\n", want: "map[nuc1:[10.0.0.1] nuc2:[10.0.0.2] nuc3:[10.0.0.3]]", says: "10.0.0.1 is the address of Node nuc1\n"},
		"a loopback address":   {flags: []string{"nuc1=127.0.1.1"}, want: "--address: 127.0.1.1 is no address that other machines reach a machine by"},
		"one of another Node":  {flags: []string{"nuc1=192.168.1.9"}, want: "--address: 192.168.1.9 is in use in the cluster"},
		"one address twice":    {flags: []string{"nuc1=10.0.0.1", "nuc2=10.0.0.1"}, want: "--address: 10.0.0.1 is the address of Node nuc1"},
		"not a Node":           {flags: []string{"nuc9=10.0.0.9"}, want: "--address nuc9=10.0.0.9: say NODE=ADDRESS for a Node that reports no address; these are: nuc1, nuc2, nuc3"},
		"no Node":              {flags: []string{"10.0.0.9"}, want: "say NODE=ADDRESS"},
		"no address":           {flags: []string{"nuc1=ten"}, want: "--address: ParseAddr"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			q := asker{in: bufio.NewScanner(strings.NewReader(c.typed)), out: &out, quiet: c.yes}
			got, err := start{address: c.flags}.addresses(t.Context(), &q, nodes, used, look)
			if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v; want %s", text, err, c.want)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it says %q", out.String())
			}
		})
	}
}

// lookIn is a resolver that knows some names.
func lookIn(names map[string]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, name string) (all []netip.Addr, err error) {
		for text := range strings.FieldsSeq(names[name]) {
			all = append(all, netip.MustParseAddr(text))
		}
		if all == nil {
			err = errors.New("no such host")
		}
		return all, err
	}
}

// TestInitProposesWhatOneNodeAloneHas of what its name resolves to, as systemd-resolved has it on a Node.
func TestInitProposesWhatOneNodeAloneHas(t *testing.T) {
	used := []netip.Prefix{netip.MustParsePrefix("10.42.0.0/24"), netip.MustParsePrefix("192.168.1.10/32"), netip.MustParsePrefix("10.43.0.0/16")}
	for name, c := range map[string]struct {
		names map[string]string
		want  string
	}{
		"bridges":                   {map[string]string{"nuc1": "172.17.0.1 10.42.0.1 192.168.1.11 10.43.0.1 127.0.1.1 fe80::1 fd00::b"}, "map[nuc1:[192.168.1.11 fd00::b]]"},
		"what another Node reports": {map[string]string{"nuc1": "192.168.1.10"}, "map[]"},
		"IPv4 within IPv6":          {map[string]string{"nuc1": "::ffff:192.168.1.11"}, "map[nuc1:[192.168.1.11]]"},
		"a wildcard":                {map[string]string{"nuc1": "203.0.113.1", "nuc2": "203.0.113.1", "nuc3": "192.168.1.13"}, "map[nuc3:[192.168.1.13]]"},
		"one of a family":           {map[string]string{"nuc1": "10.0.0.1 192.168.7.1", "nuc2": "192.168.7.2"}, "map[nuc1:[192.168.7.1] nuc2:[192.168.7.2]]"},
		"nothing resolves":          {nil, "map[]"},
	} {
		if got := fmt.Sprint(proposedAddresses(resolveAll(t.Context(), []string{"nuc1", "nuc2", "nuc3"}, lookIn(c.names)), used)); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}

// TestInitWaitsTwoSecondsForAllNames of Nodes whose names nobody answers for.
func TestInitWaitsTwoSecondsForAllNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := resolveAll(t.Context(), []string{"nuc1", "nuc2", "nuc3"}, func(ctx context.Context, name string) ([]netip.Addr, error) {
			if name == "nuc2" {
				return []netip.Addr{netip.MustParseAddr("192.168.1.12")}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if took := time.Since(begin); took != lookUpTimeout || len(got["nuc2"]) != 1 {
			t.Errorf("%v after %v", got, took)
		}
	})
}
