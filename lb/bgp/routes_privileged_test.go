//go:build privileged

package bgp

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// routes lists the routes through us in the router's kernel: prefix by next hops.
func (r *router) routes() map[string]string {
	got := map[string]string{}
	for _, family := range []string{"-4", "-6"} {
		rows, err := r.kernelRoutes(family)
		if err != nil {
			rows, err = r.kernelRoutes(family)
		}
		if err != nil {
			r.t.Errorf("the routes of the router's kernel cannot be read: %v", err)
		}
		for _, row := range rows {
			if row.Protocol != "bgp" && row.Protocol != "bird" {
				continue
			}
			hops := []string{row.Gateway + row.Via.Host}
			for _, h := range row.Nexthops {
				hops = append(hops, h.Gateway)
			}
			got[row.Dst] = strings.TrimSpace(strings.Join(hops, " "))
		}
	}
	return got
}

// kernelRoute is a route in the output of ip.
type kernelRoute struct {
	Dst, Gateway, Protocol string
	Via                    struct{ Host string }
	Nexthops               []struct{ Gateway string }
}

// kernelRoutes returns the routes of a family in the router's kernel.
func (r *router) kernelRoutes(family string) (rows []kernelRoute, err error) {
	out, err := exec.Command("ip", "-n", r.ns, "-j", family, "route").Output()
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(out, &rows)
	return rows, err
}

// holds waits until the router's kernel has exactly these routes, and returns how long it took.
func (r *router) holds(within time.Duration, want map[string]string) time.Duration {
	r.t.Helper()
	return eventually(r.t, within, fmt.Sprintf("the router holds %v", want), func() (bool, string) {
		got := r.routes()
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got)
	})
}

// count waits as holds does, until the router's kernel has so many routes.
func (r *router) count(within time.Duration, want int) {
	r.t.Helper()
	eventually(r.t, within, fmt.Sprintf("the router holds %d routes", want), func() (bool, string) {
		n := len(r.routes())
		return n == want, fmt.Sprint(n)
	})
}
