//go:build privileged

package bgp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// withAttributes returns an advertisement with every attribute.
func withAttributes(t *testing.T, prefix string) advertise.Advertisement {
	return advertise.Advertisement{
		Prefix: netip.MustParsePrefix(prefix), LocalPref: 200, Prepend: 2,
		Communities: communities(t, "65010:100", "65535:0", "large:65010:1:7"),
	}
}

func TestRoutersSeeTheAttributes(t *testing.T) {
	tests := []struct {
		name string
		asn  inventory.ASN // ours
		frr  []string
		bird []string
	}{
		{"in another AS", ourASN,
			[]string{`"string":"65010 65010 65010"`, `65010:100`, `65010:1:7`, `gracefulShutdown`},
			[]string{"BGP.as_path: 65010 65010 65010", "(65010,100)", "(65535,0)", "(65010, 1, 7)"}},
		{"in the same AS", routerASN,
			[]string{`"locPrf":200`, `65010:100`, `65010:1:7`},
			[]string{"BGP.local_pref: 200", "(65010,100)", "(65010, 1, 7)"}},
		{"in an AS of four octets", 4200000001,
			[]string{`"string":"4200000001 4200000001 4200000001"`},
			[]string{"BGP.as_path: 4200000001 4200000001 4200000001"}},
	}
	questions := map[string][]string{
		"frr":  {"show bgp ipv4 unicast 203.0.113.10/32 json", "show bgp ipv6 unicast 2001:db8:113::10/128 json"},
		"bird": {"show route for 203.0.113.10/32 all", "show route for 2001:db8:113::10/128 all"},
	}
	for _, tt := range tests {
		for dialect, d := range dialects {
			t.Run(tt.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				router := d.start(newRouter(t), neighbour{asn: int(tt.asn)})
				speaker := newSpeaker(t)
				c := configOf(plan(router.session4()), plan(router.session6()))
				for i, prefix := range []string{"203.0.113.10/32", "2001:db8:113::10/128"} {
					c.Sessions[i].Session.LocalASN = tt.asn
					c.Sessions[i].Advertisements = sorted.Of(withAttributes(t, prefix))
				}
				must(t, speaker.Set(t.Context(), c))
				want := map[string][]string{"frr": tt.frr, "bird": tt.bird}[dialect]
				for _, question := range questions[dialect] {
					eventually(t, 10*time.Second, fmt.Sprintf("%s shows %q", question, want), func() (bool, string) {
						got := compact(router.ask(question))
						for _, w := range want {
							if !strings.Contains(got, w) {
								return false, "no " + w + " in " + got
							}
						}
						return true, ""
					})
				}
			})
		}
	}
}

// compact returns JSON without spaces, and other text unchanged.
func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return s
	}
	return b.String()
}

func TestWeightsReachTheKernelOfFRR(t *testing.T) {
	// Two machines, as two addresses of this one, with three endpoints and one.
	router := newRouter(t)
	tests := []struct {
		family, vip string
		first       netip.Addr
		session     func() inventory.Session
	}{
		{"ipv4", "203.0.113.10", router.Local4, router.session4},
		{"ipv6", "2001:db8:113::10", router.Local6, router.session6},
	}
	var lines string
	for _, tt := range tests {
		second := eleventhOf(tt.first)
		run(t, "ip", "addr", "add", netip.PrefixFrom(second, map[bool]int{true: 24, false: 64}[second.Is4()]).String(), "dev", router.link)
		lines += fmt.Sprintf(" neighbor %v remote-as %d\n neighbor %v passive\n address-family %s unicast\n  neighbor %v activate\n  maximum-paths 16\n exit-address-family\n",
			second, ourASN, second, tt.family, second)
	}
	router.frr(neighbour{families: " bgp bestpath as-path multipath-relax\n" + lines})
	for _, tt := range tests {
		t.Run(tt.family, func(t *testing.T) {
			hops := []netip.Addr{tt.first, eleventhOf(tt.first)}
			for i, from := range hops {
				s := newSpeaker(t)
				ad := advertise.Advertisement{Prefix: netip.PrefixFrom(netip.MustParseAddr(tt.vip), from.BitLen()), Bandwidth: uint32(125_000 * (3 - 2*i))}
				c := configOf(announcing(tt.session(), ad))
				c.RouterID = netip.AddrFrom4([4]byte{10, 99, 250, byte(1 + i)})
				c.Sessions[0].Session.Local = from
				must(t, s.Set(t.Context(), c))
			}
			eventually(t, 15*time.Second, "the kernel has weights of 3 to 1", func() (bool, string) {
				out, _ := exec.Command("ip", "-n", router.ns, "-j", "route", "show", tt.vip).Output()
				if hops[0].Is6() {
					out, _ = exec.Command("ip", "-n", router.ns, "-j", "-6", "route", "show", tt.vip).Output()
				}
				var rows []struct {
					Nexthops []struct {
						Gateway string
						Weight  float64
					}
				}
				_ = json.Unmarshal(out, &rows)
				weight := map[string]float64{}
				for _, row := range rows {
					for _, h := range row.Nexthops {
						weight[h.Gateway] = h.Weight
					}
				}
				a, b := weight[hops[0].String()], weight[hops[1].String()]
				return b > 0 && a/b > 2.8 && a/b < 3.2, string(out)
			})
		})
	}
}

// eleventhOf returns another address of the same subnet.
func eleventhOf(a netip.Addr) netip.Addr {
	for range 10 {
		a = a.Next()
	}
	return a
}
