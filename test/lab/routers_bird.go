package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// bird runs one BIRD 2.
type bird struct{}

func (bird) start(ctx context.Context, l *Lab, r Router) error {
	dir := l.routerDir(r)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	plinth, err := os.ReadFile(filepath.Join(dir, "plinth.conf"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeBird(l.Topology, r, dir, string(plinth)); err != nil {
		return err
	}
	_, err = l.start(r.Name, "bird-"+r.Name, nil,
		"bird", "-f", "-c", filepath.Join(dir, "bird.conf"), "-s", filepath.Join(dir, "bird.ctl"), "-P", filepath.Join(dir, "bird.pid"))
	if err != nil {
		return err
	}
	return Within(ctx, 10*time.Second, func(ctx context.Context) error {
		_, err := l.birdc(ctx, r, "show", "status")
		return err
	})
}

func writeBird(t Topology, r Router, dir, plinth string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "plinth.conf"), []byte(plinth), 0o644),
		os.WriteFile(filepath.Join(dir, "bird.conf"), []byte(birdOwn(t, r)), 0o644))
}

func (bird) configure(ctx context.Context, l *Lab, r Router, plinth string) error {
	if err := writeBird(l.Topology, r, l.routerDir(r), plinth); err != nil {
		return err
	}
	out, err := l.birdc(ctx, r, "configure")
	if err == nil && !strings.Contains(out, "Reconfigured") && !strings.Contains(out, "Reconfiguration in progress") {
		err = errors.New(strings.TrimSpace(out))
	}
	return err
}

func (l *Lab) birdc(ctx context.Context, r Router, args ...string) (string, error) {
	return netns.Output(ctx, l.Namespace(r.Name), append([]string{"birdc", "-s", filepath.Join(l.routerDir(r), "bird.ctl")}, args...)...)
}

// birdOwn is what is the router's own: its interfaces, the kernel, the way to the
// client, and sessions with the other routers, to whom it tells all it knows.
func birdOwn(t Topology, r Router) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("log stderr all;\nrouter id %s;", routerID(t, r))
	say("protocol device { scan time 2; }\nprotocol direct { ipv4; ipv6; }\nprotocol bfd { }")
	say("protocol kernel { merge paths on limit 16; ipv4 { import none; export where source != RTS_DEVICE; }; }")
	say("protocol kernel { merge paths on limit 16; ipv6 { import none; export where source != RTS_DEVICE; }; }")
	for _, k := range t.neighbours(r.Name) {
		if k.b == clientHost {
			say("protocol static { ipv4; route %s/32 via %s; }", ClientAddress.V4, k.addrB.V4)
			say("protocol static { ipv6; route %s/128 via %s; }", ClientAddress.V6, k.addrB.V6)
		}
		if other, ok := t.Router(k.b); ok {
			session := "protocol bgp { local %s as %d; neighbor %s as %d; hold time 9; connect retry time 1; connect delay time 1; error wait time 1, 5; %s { import all; export all; }; }"
			say(session, k.addrA.V4, r.ASN, k.addrB.V4, other.ASN, "ipv4")
			say(session, k.addrA.V6, r.ASN, k.addrB.V6, other.ASN, "ipv6")
		}
	}
	say(`include "plinth.conf";`)
	return b.String()
}

func (bird) show(ctx context.Context, l *Lab, r Router, p netip.Prefix) (string, error) {
	return l.birdc(ctx, r, "show", "route", p.String(), "all")
}

// routes reads `show route all`, which prints a path as
//
//	203.0.113.0/32  unicast [plinth_w3 12:00:00.000] * (100) [AS65010i]
//		via 10.10.2.11 on rack1
//		Type: BGP univ
//		BGP.as_path: 65010
//		BGP.next_hop: 10.10.2.11
//
// with the prefix on the first path alone and an asterisk on the best.
func (bird) routes(ctx context.Context, l *Lab, r Router, p netip.Prefix) ([]BGPRoute, error) {
	out, err := l.birdc(ctx, r, "show", "route", p.String(), "all")
	if err != nil {
		if strings.Contains(out, "Network not found") {
			return nil, nil
		}
		return nil, err
	}
	hops, err := l.NextHops(ctx, r.Name, p)
	if err != nil {
		return nil, err
	}
	var routes []BGPRoute
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		switch key {
		case "BGP.as_path":
			routes = append(routes, BGPRoute{ASPath: asPath(value)})
		case "BGP.next_hop":
			if len(routes) > 0 {
				first, _, _ := strings.Cut(strings.TrimSpace(value), " ") // a link-local address may follow
				last := &routes[len(routes)-1]
				last.NextHop, err = netip.ParseAddr(first)
				if err != nil {
					return nil, fmt.Errorf("show route %s: %w", p, err)
				}
				for _, h := range hops {
					last.Best = last.Best || h == last.NextHop // BIRD merges paths on their way to the kernel
				}
			}
		}
	}
	return routes, nil
}
