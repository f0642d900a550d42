//go:build privileged

package bgp

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// dressed is an advertisement with every attribute that there is.
func dressed(t *testing.T, prefix string) lb.Advertisement {
	return lb.Advertisement{
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
	questions := map[string]string{"frr": "show bgp ipv4 unicast 203.0.113.10/32 json", "bird": "show route for 203.0.113.10/32 all"}
	for _, tt := range tests {
		for dialect, d := range dialects {
			t.Run(tt.name+", "+dialect, func(t *testing.T) {
				t.Parallel()
				r := d.start(newRouter(t), neighbour{asn: int(tt.asn)})
				s := speaker(t)
				c := config(plan(r.session4()))
				c.Sessions[0].Session.LocalASN = tt.asn
				c.Sessions[0].Advertisements = []lb.Advertisement{dressed(t, "203.0.113.10/32")}
				must(t, s.Set(t.Context(), c))
				want := map[string][]string{"frr": tt.frr, "bird": tt.bird}[dialect]
				eventually(t, 10*time.Second, fmt.Sprintf("the router sees %q", want), func() (bool, string) {
					got := r.ask(questions[dialect])
					var compact strings.Builder
					if dialect == "frr" {
						var v any
						if json.Unmarshal([]byte(got), &v) == nil {
							_ = json.NewEncoder(&compact).Encode(v)
							got = compact.String()
						}
					}
					for _, w := range want {
						if !strings.Contains(got, w) {
							return false, "no " + w + " in " + got
						}
					}
					return true, ""
				})
			})
		}
	}
}

func TestWeightsReachTheKernelOfFRR(t *testing.T) {
	// Two machines, as two addresses of this one, with three endpoints and one.
	r := newRouter(t)
	second := netip.AddrFrom4([4]byte{r.Local4.As4()[0], r.Local4.As4()[1], r.Local4.As4()[2], 11})
	run(t, "ip", "addr", "add", second.String()+"/24", "dev", r.link)
	r.frr(neighbour{families: fmt.Sprintf(" bgp bestpath as-path multipath-relax\n neighbor %v remote-as %d\n neighbor %v passive\n address-family ipv4 unicast\n  neighbor %v activate\n  maximum-paths 16\n exit-address-family\n", second, ourASN, second, second)})
	for i, from := range []netip.Addr{r.Local4, second} {
		s := speaker(t)
		c := config(plan(r.session4(), "203.0.113.10/32"))
		c.RouterID = from
		c.Sessions[0].Session.Local = from
		c.Sessions[0].Advertisements[0].Bandwidth = uint32(125_000 * (3 - 2*i))
		must(t, s.Set(t.Context(), c))
	}
	eventually(t, 15*time.Second, "the kernel has weights of 3 to 1", func() (bool, string) {
		var rows []struct {
			Nexthops []struct{ Gateway, Weight any }
		}
		out, _ := exec.Command("ip", "-n", r.ns, "-j", "route", "show", "203.0.113.10").Output()
		_ = json.Unmarshal(out, &rows)
		if len(rows) != 1 || len(rows[0].Nexthops) != 2 {
			return false, string(out)
		}
		weight := map[any]float64{}
		for _, h := range rows[0].Nexthops {
			weight[h.Gateway], _ = h.Weight.(float64)
		}
		a, b := weight[r.Local4.String()], weight[second.String()]
		return b > 0 && a/b > 2.8 && a/b < 3.2, string(out)
	})
}
