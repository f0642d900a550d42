package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab/netns"
)

// frr runs FRRouting's daemons, each with its sockets in a folder of the router's own.
type frr struct{}

const frrDaemons = "/usr/lib/frr"

func (frr) start(ctx context.Context, l *Lab, r Router) error {
	dir := l.routerDir(r)
	if err := frrFolder(dir); err != nil {
		return err
	}
	for _, daemon := range []string{"zebra", "staticd", "bfdd", "bgpd"} {
		command := []string{filepath.Join(frrDaemons, daemon),
			"-u", "frr", "-g", "frr", "--vty_socket", dir, "-P", "0", // no TCP vty
			"-f", filepath.Join(dir, "empty.conf"), "-i", filepath.Join(dir, daemon+".pid"), "-z", filepath.Join(dir, "zserv.api"),
			"--log", "stdout",
		}
		switch daemon {
		case "bfdd":
			command = append(command, "--bfdctl", filepath.Join(dir, "bfdd.sock"))
		case "zebra": // as docs/guides/routers.md has it: IPv6 routes are replaced, and not taken away and added
			command = append(command, "--v6-rr-semantics")
		}
		if _, err := l.start(r.Name, daemon+"-"+r.Name, nil, command...); err != nil {
			return err
		}
		// The daemons that follow want zebra to answer. A file may be left of one that was killed.
		err := Within(ctx, 10*time.Second, func(ctx context.Context) error {
			sockets := []string{daemon + ".vty"}
			if daemon == "zebra" {
				sockets = append(sockets, "zserv.api")
			}
			for _, socket := range sockets {
				if err := answers(ctx, filepath.Join(dir, socket)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s does not answer: %w\n%s", daemon, err, l.logTail(daemon+"-"+r.Name))
		}
	}
	// It begins with nothing. What works out a difference does so twice, and the second time finds neighbours
	// that connect already, of whom FRR takes no other terms of graceful restart.
	if err := os.Remove(filepath.Join(dir, "plinth.conf")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	own := filepath.Join(dir, "own.conf")
	if err := os.WriteFile(own, []byte(frrOwn(l.Topology, r)), 0o644); err != nil {
		return err
	}
	_, err := l.vtysh(ctx, r, "-f", own)
	return err
}

// answers reports whether somebody listens on a socket.
func answers(ctx context.Context, socket string) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return c.Close()
}

// frrFolder makes a folder that the user frr may write to.
func frrFolder(dir string) error {
	who, err := user.Lookup("frr")
	if err != nil {
		return fmt.Errorf("FRR is not installed: %w", err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	return errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "empty.conf"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "vtysh.conf"), nil, 0o644),
		os.Chown(dir, uid, gid))
}

// configure loads the router's own part and Plinth's. The first time it only
// adds, later frr-reload works out the difference, as it does on a real router.
func (frr) configure(ctx context.Context, l *Lab, r Router, plinth string) error {
	dir := l.routerDir(r)
	file, whole := filepath.Join(dir, "plinth.conf"), filepath.Join(dir, "frr.conf")
	_, err := os.Stat(file)
	again := err == nil
	err = errors.Join(
		os.WriteFile(file, []byte(plinth), 0o644),
		os.WriteFile(whole, []byte(frrOwn(l.Topology, r)+plinth), 0o644))
	if err != nil {
		return err
	}
	if !again {
		_, err := l.vtysh(ctx, r, "-f", file)
		return err
	}
	reload := func() error {
		_, err := netns.Output(ctx, l.Namespace(r.Name), filepath.Join(frrDaemons, "frr-reload.py"), "--reload",
			"--vty_socket", dir, "--confdir", dir, "--rundir", dir, "--stdout", whole)
		return err
	}
	if err = reload(); err != nil && strings.Contains(err.Error(), " graceful-restart-helper\n") {
		return reload() // a peer group is new: FRR has the line all the same, as docs/guides/routers.md has it
	}
	return err
}

// vtysh runs vtysh against the daemons of one router. It says what went wrong on
// its standard output, and returns 0 in spite of some errors.
func (l *Lab) vtysh(ctx context.Context, r Router, args ...string) (string, error) {
	dir := l.routerDir(r)
	out, err := netns.Output(ctx, l.Namespace(r.Name), append([]string{"vtysh", "--vty_socket", dir, "--config_dir", dir}, args...)...)
	if err == nil && (strings.Contains(out, "% Unknown command") || strings.Contains(out, "% Malformed")) {
		err = errors.New("vtysh: " + strings.TrimSpace(out))
	}
	if err != nil {
		return out, fmt.Errorf("%w\n%s", err, strings.TrimSpace(out))
	}
	return out, nil
}

// frrOwn is what is the router's own: the way to the client, and sessions with
// the other routers, to whom it tells all it knows.
func frrOwn(t Topology, r Router) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("frr defaults traditional\nhostname %s\nroute-map LAB permit 10\nexit", r.Name)
	say("router bgp %d\n bgp router-id %s\n timers bgp 3 9", r.ASN, routerID(t, r))
	var v4, v6 []string
	for _, k := range t.neighbours(r.Name) {
		if other, ok := t.Router(k.b); ok {
			for _, a := range []netip.Addr{k.addrB.V4, k.addrB.V6} {
				say(" neighbor %s remote-as %d\n neighbor %s timers connect 1", a, other.ASN, a)
			}
			v4, v6 = append(v4, k.addrB.V4.String()), append(v6, k.addrB.V6.String())
		}
	}
	family := func(name string, with, without []string) {
		say(" address-family %s unicast\n  redistribute connected\n  redistribute static", name)
		for _, a := range with {
			say("  neighbor %s activate\n  neighbor %s route-map LAB in\n  neighbor %s route-map LAB out", a, a, a)
		}
		for _, a := range without {
			say("  no neighbor %s activate", a)
		}
		say(" exit-address-family")
	}
	family("ipv4", v4, v6)
	family("ipv6", v6, nil)
	say("exit")
	for _, k := range t.neighbours(r.Name) {
		if k.b == clientHost {
			say("ip route %s/32 %s\nipv6 route %s/128 %s", ClientAddress.V4, k.addrB.V4, ClientAddress.V6, k.addrB.V6)
		}
	}
	return b.String()
}

// routerID is the router's first address.
func routerID(t Topology, r Router) netip.Addr {
	for _, rack := range t.Racks {
		if a := t.RouterAddress(r.Name, rack.Name); a.V4.IsValid() {
			return a.V4
		}
	}
	return t.neighbours(r.Name)[0].addrA.V4
}

func (frr) show(ctx context.Context, l *Lab, r Router, p netip.Prefix) (string, error) {
	return l.vtysh(ctx, r, "-c", "show bgp "+frrFamily(p)+" unicast "+p.String())
}

func frrFamily(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ipv4"
	}
	return "ipv6"
}

func (frr) routes(ctx context.Context, l *Lab, r Router, p netip.Prefix) ([]BGPRoute, error) {
	out, err := l.vtysh(ctx, r, "-c", "show bgp "+frrFamily(p)+" unicast "+p.String()+" json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Paths []struct {
			ASPath struct {
				String string `json:"string"`
			} `json:"aspath"`
			Valid     bool                   `json:"valid"`
			Multipath bool                   `json:"multipath"`
			Bestpath  struct{ Overall bool } `json:"bestpath"`
			Nexthops  []struct {
				IP    netip.Addr `json:"ip"`
				Scope string     `json:"scope"`
			} `json:"nexthops"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return nil, fmt.Errorf("show bgp %s: %w: %s", p, err, out)
	}
	var routes []BGPRoute
	for _, path := range answer.Paths {
		route := BGPRoute{ASPath: asPath(path.ASPath.String), Best: path.Bestpath.Overall || path.Multipath}
		for _, hop := range path.Nexthops {
			if hop.Scope != "link-local" || !route.NextHop.IsValid() {
				route.NextHop = hop.IP
			}
		}
		routes = append(routes, route)
	}
	return routes, nil
}

func asPath(text string) []uint32 {
	var path []uint32
	for _, word := range strings.Fields(text) {
		if n, err := strconv.ParseUint(word, 10, 32); err == nil {
			path = append(path, uint32(n))
		}
	}
	return path
}
