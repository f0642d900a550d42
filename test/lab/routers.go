package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plinth.dev/plinth/test/lab/netns"
)

// routerOS is one router implementation. Its configuration has two parts: what
// is the router's own, and what Plinth prints for it, taken as it is.
type routerOS interface {
	start(ctx context.Context, l *Lab, r Router) error
	configure(ctx context.Context, l *Lab, r Router, plinth string) error
	routes(ctx context.Context, l *Lab, r Router, p netip.Prefix) ([]BGPRoute, error)
	show(ctx context.Context, l *Lab, r Router, p netip.Prefix) (string, error)
}

func implementation(os string) routerOS {
	switch os {
	case BIRD:
		return bird{}
	case Plain:
		return plain{}
	}
	return frr{}
}

// BGPRoute is one way to a prefix that a router has heard of.
type BGPRoute struct {
	NextHop netip.Addr
	ASPath  []uint32
	Best    bool // chosen, alone or as one of several
}

func (l *Lab) startRouters(ctx context.Context) error {
	for _, r := range l.Topology.Routers {
		if err := implementation(r.OS).start(ctx, l, r); err != nil {
			return fmt.Errorf("router %s: %w", r.Name, err)
		}
	}
	return nil
}

func (l *Lab) router(name string) (Router, routerOS, error) {
	r, ok := l.Topology.Router(name)
	if !ok {
		return r, nil, fmt.Errorf("there is no router %q", name)
	}
	return r, implementation(r.OS), nil
}

// routerDir holds a router's configuration and sockets. It is under /run, as a
// socket's path is at most 107 bytes long and routers give up root.
func (l *Lab) routerDir(r Router) string {
	return filepath.Join(runDir(l.record.Name), "routers", r.Name)
}

// ConfigureRouter makes a router run with what Plinth prints for it, in the place
// of what it was given before. Sessions that stay the same stay up.
func (l *Lab) ConfigureRouter(ctx context.Context, name, config string) error {
	r, os, err := l.router(name)
	if err != nil {
		return err
	}
	if err := os.configure(ctx, l, r, config); err != nil {
		return fmt.Errorf("configuring router %s: %w", name, err)
	}
	return nil
}

// BGPRoutes asks a router for all that it has heard about exactly this prefix,
// sorted by next hop. No route is no error.
func (l *Lab) BGPRoutes(ctx context.Context, router string, p netip.Prefix) ([]BGPRoute, error) {
	r, os, err := l.router(router)
	if err != nil {
		return nil, err
	}
	routes, err := os.routes(ctx, l, r, p)
	slices.SortFunc(routes, func(a, b BGPRoute) int { return a.NextHop.Compare(b.NextHop) })
	return routes, err
}

// ShowBGP is the router's own word on a prefix, as an operator would read it.
func (l *Lab) ShowBGP(ctx context.Context, router string, p netip.Prefix) (string, error) {
	r, os, err := l.router(router)
	if err != nil {
		return "", err
	}
	return os.show(ctx, l, r, p)
}

// StopRouter ends a router's programs without a word to its neighbours; what it
// put into the kernel stays. StartRouter brings it back with the same configuration.
func (l *Lab) StopRouter(ctx context.Context, name string) error {
	var err error
	for _, program := range l.processesOn(name) {
		p, _ := l.Process(program)
		err = errors.Join(err, l.kill(ctx, program), removeCrashFolders([]Process{p}))
	}
	return err
}

// RouterRuns reports whether any program of a router runs.
func (l *Lab) RouterRuns(name string) bool { return len(l.processesOn(name)) > 0 }

// StartRouter starts a router that was stopped, with the configuration it had.
func (l *Lab) StartRouter(ctx context.Context, name string) error {
	r, impl, err := l.router(name)
	if err != nil {
		return err
	}
	config, err := os.ReadFile(filepath.Join(l.routerDir(r), "plinth.conf"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := impl.start(ctx, l, r); err != nil {
		return err
	}
	return impl.configure(ctx, l, r, string(config))
}

func (l *Lab) processesOn(host string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, p := range l.record.Processes {
		if p.Host == host && p.Alive() {
			names = append(names, p.Name)
		}
	}
	return names
}

// KernelRoute is a route as `ip -j route` prints it.
type KernelRoute struct {
	Dst      string        `json:"dst"`
	Gateway  netip.Addr    `json:"gateway"`
	Dev      string        `json:"dev"`
	Protocol string        `json:"protocol"`
	Metric   int           `json:"metric"`
	Weight   int           `json:"weight"` // of one of several next hops
	Nexthops []KernelRoute `json:"nexthops"`
	Via      struct {
		Host netip.Addr `json:"host"`
	} `json:"via"` // a gateway of the other family
}

// Gateways returns the next hops of the route, sorted.
func (r KernelRoute) Gateways() []netip.Addr {
	var list []netip.Addr
	for _, hop := range append([]KernelRoute{r}, r.Nexthops...) {
		switch {
		case hop.Gateway.IsValid():
			list = append(list, hop.Gateway)
		case hop.Via.Host.IsValid():
			list = append(list, hop.Via.Host)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// KernelRoutes returns the main table of a host, both families.
func (l *Lab) KernelRoutes(ctx context.Context, host string) ([]KernelRoute, error) {
	var all []KernelRoute
	for _, family := range []string{"-4", "-6"} {
		out, err := netns.Output(ctx, l.Namespace(host), "ip", "-j", family, "route")
		if err != nil {
			return nil, err
		}
		var list []KernelRoute
		if strings.TrimSpace(out) != "" {
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				return nil, fmt.Errorf("ip -j %s route in %s: %w", family, host, err)
			}
		}
		all = append(all, list...)
	}
	return all, nil
}

// NextHops returns the gateways that the kernel of a host has for exactly this
// prefix, sorted; none when there is no such route.
func (l *Lab) NextHops(ctx context.Context, host string, p netip.Prefix) (hops []netip.Addr, err error) {
	routes, err := l.routesTo(ctx, host, p)
	for _, r := range routes {
		hops = append(hops, r.Gateways()...)
	}
	slices.SortFunc(hops, netip.Addr.Compare)
	return hops, err
}

// routesTo returns the routes that the kernel of a host has for exactly this prefix.
func (l *Lab) routesTo(ctx context.Context, host string, p netip.Prefix) ([]KernelRoute, error) {
	routes, err := l.KernelRoutes(ctx, host)
	want := []string{p.String()}
	if p.IsSingleIP() {
		want = append(want, p.Addr().String()) // as ip prints it
	}
	return slices.DeleteFunc(routes, func(r KernelRoute) bool { return !slices.Contains(want, r.Dst) }), err
}

// Shares returns the percentages of the flows to a VIP that the kernel of a router gives to the machines of its racks, rounded. It
// has none where the router has no machine as next hop.
func (l *Lab) Shares(ctx context.Context, router string, vip netip.Addr) (map[string]int, error) {
	routes, err := l.routesTo(ctx, router, VIPPrefix(vip))
	shares, total := map[string]int{}, 0
	for _, r := range routes {
		for _, hop := range append([]KernelRoute{r}, r.Nexthops...) {
			for _, m := range l.Topology.Machines() {
				if slices.Equal(l.Topology.localHops(router, vip, []string{m.Name}), []netip.Addr{hop.Gateway}) {
					shares[m.Name] = max(hop.Weight, 1) // ip prints no weight of a single next hop
					total += shares[m.Name]
				}
			}
		}
	}
	for m, weight := range shares {
		shares[m] = (200*weight + total) / (2 * total)
	}
	return shares, err
}
