//go:build privileged

package bgp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/wait"
)

// The tests run in network, mount and process namespaces of their own: their
// routers and addresses cannot meet anything else on the machine, and all of it is
// gone when they end, however they end.

// inside is the variable of a process that runs in its own namespaces.
const inside = "PLINTH_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		os.Exit(reexec())
	}
	if os.Getenv(asAgent) != "" {
		os.Exit(m.Run()) // started by a test, in its namespaces
	}
	for _, args := range [][]string{
		{"mount", "--make-rprivate", "/"},
		{"mount", "-t", "proc", "proc", "/proc"},
		{"mount", "-t", "tmpfs", "tmpfs", "/run"},
		{"ip", "link", "set", "lo", "up"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v: %s\n", args, err, out)
			os.Exit(1)
		}
	}
	_ = flag.Set("test.parallel", "8") // the tests wait more than they work
	os.Exit(m.Run())
}

// reexec runs this test binary in namespaces of its own.
func reexec() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need root and namespaces:", err)
		return 1
	}
	return 0
}

// run runs a command and returns its output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	c := exec.Command(name, args...)
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// eventually waits for a condition as wait.True does, and returns how long it took.
func eventually(t testing.TB, within time.Duration, what string, ok func() (bool, string)) time.Duration {
	t.Helper()
	begin := time.Now()
	wait.True(t, within, 50*time.Millisecond, what, ok)
	return time.Since(begin)
}

// never fails the test where a condition comes true.
func never(t testing.TB, for_ time.Duration, what string, bad func() (bool, string)) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < for_; time.Sleep(20 * time.Millisecond) {
		if yes, now := bad(); yes {
			t.Fatalf("%s\n%s", what, now)
		}
	}
}

// numbers counts the routers.
var numbers atomic.Int32

// router is a network namespace behind a link of its own, with its daemons.
type router struct {
	t      testing.TB
	n      int
	ns     string
	dir    string
	link   string // our end
	Addr4  netip.Addr
	Addr6  netip.Addr
	Local4 netip.Addr
	Local6 netip.Addr
	ask    func(command string) string
	daemon []*exec.Cmd
}

const (
	ourASN    = 65010
	routerASN = 65101
)

// number sets the names and addresses of the router and its link.
func (r *router) number(n int) {
	r.n, r.ns, r.link = n, fmt.Sprintf("plt-r%d", n), fmt.Sprintf("plt%d", n)
	r.dir = "/run/" + r.ns // a folder that the routers' own users can reach
	r.Local4, r.Addr4 = netip.MustParseAddr(fmt.Sprintf("10.99.%d.1", n)), netip.MustParseAddr(fmt.Sprintf("10.99.%d.2", n))
	r.Local6, r.Addr6 = netip.MustParseAddr(fmt.Sprintf("fd99:%x::1", n)), netip.MustParseAddr(fmt.Sprintf("fd99:%x::2", n))
}

// newRouter creates a namespace and a link to it, without daemons.
func newRouter(t testing.TB) *router {
	t.Helper()
	tor := &router{t: t}
	tor.number(int(numbers.Add(1)))
	must(t, os.Mkdir(tor.dir, 0o755))
	run(t, "ip", "netns", "add", tor.ns)
	t.Cleanup(func() {
		tor.kill()
		if t.Failed() {
			tor.logs()
		}
		run(t, "ip", "netns", "del", tor.ns)
	})
	run(t, "ip", "link", "add", tor.link, "type", "veth", "peer", "name", "eth0", "netns", tor.ns)
	for _, end := range []struct {
		where []string
		dev   string
		v4    netip.Addr
		v6    netip.Addr
	}{{nil, tor.link, tor.Local4, tor.Local6}, {[]string{"-n", tor.ns}, "eth0", tor.Addr4, tor.Addr6}} {
		ip := func(args ...string) { run(t, "ip", append(slices.Clone(end.where), args...)...) }
		ip("link", "set", end.dev, "up")
		ip("addr", "add", end.v4.String()+"/24", "dev", end.dev)
		ip("addr", "add", end.v6.String()+"/64", "dev", end.dev, "nodad")
	}
	run(t, "ip", "-n", tor.ns, "link", "set", "lo", "up")
	return tor
}

// must fails the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// daemonize runs a program in the router's namespace until the test ends.
func (r *router) daemonize(name string, args ...string) *exec.Cmd {
	r.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, filepath.Base(name)+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(r.t, err)
	defer log.Close()
	c := exec.Command("ip", append([]string{"netns", "exec", r.ns, name}, args...)...)
	c.Stdout, c.Stderr = log, log
	must(r.t, c.Start())
	r.daemon = append(r.daemon, c)
	return c
}

// logs shows the output of the daemons.
func (r *router) logs() {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*.out"))
	for _, f := range files {
		if out, err := os.ReadFile(f); err == nil {
			r.t.Logf("%s:\n%s", f, out)
		}
	}
}

// kill ends the daemons.
func (r *router) kill() {
	for _, c := range slices.Backward(r.daemon) {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	r.daemon = nil
}

// neighbour configures this machine as a neighbour on the router. Zero fields mean the defaults.
type neighbour struct {
	password string
	gtsm     bool
	asn      int      // that the router expects of us
	lines    string   // further lines of the dialect, for each neighbour
	families string   // FRR: lines of the router section
	top      string   // further text before the sessions, of the dialect
	daemons  []string // of FRR, besides zebra and bgpd
	port     uint16   // that FRR listens on; 0: 179
	only4    bool     // only the session over IPv4, which then carries both families
	only6    bool     // the same over IPv6
	extended bool     // the router offers to take IPv4 with a next hop of IPv6 (RFC 8950)
}

// carries reports whether the session with one of our addresses carries a family.
func (n neighbour) carries(a netip.Addr, ipv4 bool) bool {
	return n.only4 || n.only6 || a.Is4() == ipv4
}

// both lists our addresses that the router has sessions to.
func (r *router) both(n neighbour) []netip.Addr {
	switch {
	case n.only4:
		return []netip.Addr{r.Local4}
	case n.only6:
		return []netip.Addr{r.Local6}
	}
	return []netip.Addr{r.Local4, r.Local6}
}

// at returns the router's own address of a family.
func (r *router) at(a netip.Addr) netip.Addr {
	if a.Is4() {
		return r.Addr4
	}
	return r.Addr6
}

// as returns our AS number, as the router expects it.
func (n neighbour) as() int {
	if n.asn != 0 {
		return n.asn
	}
	return ourASN
}

// frr starts zebra and bgpd.
func (r *router) frr(us neighbour) *router {
	r.t.Helper()
	var text strings.Builder
	text.WriteString("log stdout debugging\ndebug bgp neighbor-events\n")
	fmt.Fprintf(&text, "router bgp %d\n bgp router-id %v\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n no bgp network import-check\n timers bgp 3 9\n%s", routerASN, r.Addr4, us.families)
	for _, addr := range r.both(us) {
		fmt.Fprintf(&text, " neighbor %v remote-as %d\n neighbor %v timers connect 1\n neighbor %v passive\n", addr, us.as(), addr, addr)
		if us.password != "" {
			fmt.Fprintf(&text, " neighbor %v password %s\n", addr, us.password)
		}
		if us.gtsm {
			fmt.Fprintf(&text, " neighbor %v ttl-security hops 1\n", addr)
		}
		if us.extended {
			fmt.Fprintf(&text, " neighbor %v capability extended-nexthop\n", addr)
		}
		for l := range strings.Lines(us.lines) {
			fmt.Fprintf(&text, " neighbor %v %s\n", addr, strings.TrimSpace(l))
		}
	}
	for _, f := range []string{"ipv4", "ipv6"} {
		fmt.Fprintf(&text, " address-family %s unicast\n", f)
		for _, a := range r.both(us) {
			if us.carries(a, f == "ipv4") {
				fmt.Fprintf(&text, "  neighbor %v activate\n", a)
			}
		}
		text.WriteString(" exit-address-family\n")
	}
	conf := filepath.Join(r.dir, "bgpd.conf")
	must(r.t, os.WriteFile(conf, []byte(text.String()), 0o644))
	must(r.t, os.WriteFile(filepath.Join(r.dir, "zebra.conf"), nil, 0o644))
	r.ask = func(command string) string {
		out, _ := exec.Command("vtysh", "--vty_socket", r.dir, "-c", command).Output()
		return string(out)
	}
	run(r.t, "chown", "-R", "frr:frrvty", r.dir)
	r.startFRR(us)
	return r
}

// startFRR starts the daemons of FRR with the configuration that is there.
func (r *router) startFRR(us neighbour) {
	r.t.Helper()
	common := func(d string) []string {
		return []string{"-u", "frr", "-g", "frr", "--vty_socket", r.dir, "-f", filepath.Join(r.dir, d+".conf"),
			"-i", filepath.Join(r.dir, d+".pid"), "-z", filepath.Join(r.dir, "zserv.api"), "-A", "127.0.0.1"}
	}
	r.daemonize("/usr/lib/frr/zebra", common("zebra")...)
	// A file may be left of a zebra that was killed, and bgpd tries again after ten seconds only.
	eventually(r.t, 10*time.Second, "zebra answers", func() (bool, string) {
		c, err := net.Dial("unix", filepath.Join(r.dir, "zserv.api"))
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, ""
	})
	if slices.Contains(us.daemons, "bfdd") {
		r.startBFDD()
	}
	bgpd := common("bgpd")
	if us.port != 0 {
		bgpd = append(bgpd, "-p", strconv.Itoa(int(us.port)))
	}
	r.daemonize("/usr/lib/frr/bgpd", bgpd...)
	eventually(r.t, 10*time.Second, "bgpd answers", func() (bool, string) {
		out := r.ask("show bgp summary json")
		return strings.Contains(out, "{"), out
	})
}

// bird starts BIRD.
func (r *router) bird(us neighbour) *router {
	r.t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "log stderr all; debug protocols { states, events };\nrouter id %v;\nprotocol device { scan time 1; }\n", r.Addr4)
	text.WriteString("protocol kernel k4 { merge paths on; ipv4 { import none; export all; }; }\nprotocol kernel k6 { merge paths on; ipv6 { import none; export all; }; }\n")
	text.WriteString(us.top)
	for i, addr := range r.both(us) {
		fmt.Fprintf(&text, "protocol bgp us%d { local %v as %d; neighbor %v as %d; passive on; connect retry time 1; error wait time 1, 2; hold time 9;\n", i, r.at(addr), routerASN, addr, us.as())
		if us.password != "" {
			fmt.Fprintf(&text, " password %q;\n", us.password)
		}
		if us.gtsm {
			text.WriteString(" ttl security on;\n")
		}
		text.WriteString(us.lines)
		if us.carries(addr, true) {
			fmt.Fprintf(&text, " ipv4 { extended next hop %s; import all; export none; };\n", map[bool]string{true: "on", false: "off"}[us.extended])
		}
		if us.carries(addr, false) {
			text.WriteString(" ipv6 { import all; export none; };\n")
		}
		text.WriteString("}\n")
	}
	conf, ctl := filepath.Join(r.dir, "bird.conf"), filepath.Join(r.dir, "bird.ctl")
	must(r.t, os.WriteFile(conf, []byte(text.String()), 0o644))
	r.ask = func(command string) string {
		out, _ := exec.Command("birdc", "-s", ctl, command).Output()
		return string(out)
	}
	r.daemonize("bird", "-f", "-c", conf, "-s", ctl, "-P", filepath.Join(r.dir, "bird.pid"))
	eventually(r.t, 10*time.Second, "bird answers", func() (bool, string) {
		out := r.ask("show status")
		return strings.Contains(out, "up and running"), out
	})
	return r
}

// watch counts the routes that the router's kernel loses from now on.
func (r *router) watch() (lost func() int) {
	r.t.Helper()
	cmd := exec.Command("ip", "-n", r.ns, "monitor", "route")
	pipe, err := cmd.StdoutPipe()
	must(r.t, err)
	must(r.t, cmd.Start())
	var count, canaries atomic.Int64
	var done sync.WaitGroup
	done.Go(func() {
		for s := bufio.NewScanner(pipe); s.Scan(); {
			switch {
			case strings.Contains(s.Text(), canary):
				canaries.Add(1)
			case strings.HasPrefix(s.Text(), "Deleted"):
				count.Add(1)
			}
		}
	})
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); done.Wait(); _ = cmd.Wait() })
	r.pokeUntil(func() bool { return canaries.Load() > 0 })
	return func() int { return int(count.Load()) }
}

// pokeUntil changes a route of the router's kernel until a monitor observes it.
func (r *router) pokeUntil(observed func() bool) {
	r.t.Helper()
	eventually(r.t, 5*time.Second, "the kernel's changes are observed", func() (bool, string) {
		run(r.t, "ip", "-n", r.ns, "route", "add", "unreachable", canary)
		run(r.t, "ip", "-n", r.ns, "route", "del", "unreachable", canary)
		return observed(), ""
	})
}

// canary is a route that pokeUntil adds and deletes.
const canary = "192.0.2.99"

// established reports whether so many sessions are up on the router.
func (r *router) established(n int) func() (bool, string) {
	return func() (bool, string) {
		out := r.ask("show protocols all") + r.ask("show bgp neighbors")
		return strings.Count(out, "BGP state:          Established")+strings.Count(out, "BGP state = Established") == n, out
	}
}

// lastClose returns what the router shows, or logged, about how the last session ended.
func (r *router) lastClose() string {
	log, _ := os.ReadFile(filepath.Join(r.dir, "bgpd.out"))
	return r.ask("show protocols all") + string(log)
}

// session4 returns our session with the router over IPv4.
func (r *router) session4() inventory.Session {
	return inventory.Session{
		Router: r.ns, RouterAddr: r.Addr4, Port: 179, Local: r.Local4, LocalASN: ourASN, RouterASN: routerASN,
		Families: inventory.Families{IPv4: true}, HoldTime: 9 * time.Second, RestartTime: 30 * time.Second,
		Learn: inventory.LearnNothing, NextHop4: r.Local4, NextHop6: r.Local6,
	}
}

// session6 returns that over IPv6.
func (r *router) session6() inventory.Session {
	s := r.session4()
	s.RouterAddr, s.Local, s.Families = r.Addr6, r.Local6, inventory.Families{IPv6: true}
	return s
}

// both4 returns a session over IPv4 that carries both families.
func (r *router) both4() inventory.Session {
	s := r.session4()
	s.Families = inventory.Families{IPv4: true, IPv6: true}
	return s
}

// plan returns a session that announces some prefixes.
func plan(s inventory.Session, prefixes ...string) SessionConfig {
	var ads []advertise.Advertisement
	for _, p := range prefixes {
		ads = append(ads, advertisement(p))
	}
	return announcing(s, ads...)
}

// configOf returns a Config with some sessions.
func configOf(sessions ...SessionConfig) Config {
	return Config{RouterID: netip.MustParseAddr("10.99.0.1"), Sessions: sessions}
}

// newSpeaker returns a Speaker that has left at the end of the test.
func newSpeaker(t testing.TB) *Speaker {
	s := NewSpeaker(Options{Log: logger(t)})
	t.Cleanup(func() { must(t, s.Leave(context.Background())) })
	return s
}

// isUp waits until every session of a speaker is up.
func isUp(t testing.TB, s *Speaker, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, "every session is up", func() (bool, string) {
		states := s.State(t.Context())
		return len(states) > 0 && !slices.ContainsFunc(states, func(s SessionState) bool { return !s.Up }), fmt.Sprint(states)
	})
}
