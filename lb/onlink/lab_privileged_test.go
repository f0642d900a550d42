//go:build privileged

package onlink

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netns"

	"plinth.dev/plinth/wait"
)

var (
	subnet4 = netip.MustParsePrefix("10.77.0.0/24")
	subnet6 = netip.MustParsePrefix("fd77::/64")
)

// lan is a bridge in a network namespace, and hosts in others that are plugged into it.
type lan struct {
	t     testing.TB
	ns    string
	hosts int
}

func newLAN(t testing.TB) *lan {
	l := &lan{t: t, ns: fmt.Sprintf("onl%d-%d", os.Getpid(), time.Now().UnixNano()%1_000_000)}
	addNamespace(t, l.ns)
	l.ip("link add br0 type bridge mcast_snooping 0 forward_delay 0")
	l.ip("link set br0 up")
	return l
}

func addNamespace(t testing.TB, name string) {
	run(t, "ip", "netns", "add", name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", name) })
	run(t, "ip", "-n", name, "link", "set", "lo", "up")
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (l *lan) ip(args string) string {
	l.t.Helper()
	return run(l.t, "ip", strings.Fields("-n "+l.ns+" "+args)...)
}

// host is a network namespace with an interface eth0 in the LAN.
type host struct {
	lan    *lan
	t      testing.TB
	ns     string
	number int
}

// host plugs in a host with the number as the end of its addresses.
func (l *lan) host(number int) *host {
	l.t.Helper()
	l.hosts++
	h := &host{lan: l, t: l.t, ns: fmt.Sprintf("%sh%d", l.ns, number), number: number}
	addNamespace(l.t, h.ns)
	h.sysctl("net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.router_solicitations=0")
	h.plug("eth0")
	h.ip(fmt.Sprintf("addr add %v/24 dev eth0", h.v4()))
	h.ip(fmt.Sprintf("addr add %v/64 dev eth0 nodad", h.v6()))
	return h
}

// plug gives the host an interface in the LAN.
func (h *host) plug(name string) {
	h.t.Helper()
	port := fmt.Sprintf("p%d%s", h.number, name)
	h.lan.ip(fmt.Sprintf("link add %s type veth peer name %s netns %s", port, name, h.ns))
	h.lan.ip(fmt.Sprintf("link set %s master br0 up", port))
	h.comesUp(name)
}

// comesUp sets an interface up and waits until frames pass: both ends of the wire know of their carrier
// when it is there, and drop without an error what is sent before the kernel has made them operational.
func (h *host) comesUp(name string) {
	h.t.Helper()
	port := fmt.Sprintf("p%d%s", h.number, name)
	h.ip("link set " + name + " up")
	within(h.t, "frames pass at "+name, func() string {
		here, there := h.ip("link show dev "+name), h.lan.ip("-d link show dev "+port)
		if !strings.Contains(here, "state UP") || !strings.Contains(there, "state UP") || !strings.Contains(there, "state forwarding") {
			return here + there
		}
		return ""
	})
}

func (h *host) v4() netip.Addr { return addr4(h.number) }
func (h *host) v6() netip.Addr { return addr6(h.number) }

func addr4(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(n)}) }

func addr6(n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x77, 13: 0xab, 14: 0xcd, 15: byte(n)})
}

func (h *host) ip(args string) string {
	h.t.Helper()
	return run(h.t, "ip", strings.Fields("-n "+h.ns+" "+args)...)
}

func (h *host) exec(args string) (string, error) {
	out, err := exec.Command("ip", strings.Fields("netns exec "+h.ns+" "+args)...).CombinedOutput()
	return string(out), err
}

func (h *host) sysctl(settings ...string) {
	h.t.Helper()
	if out, err := h.exec("sysctl -qw " + strings.Join(settings, " ")); err != nil {
		h.t.Fatal(err, out)
	}
}

// mac is the MAC of an interface of the host.
func (h *host) mac(name string) string {
	h.t.Helper()
	fields := strings.Fields(h.ip("-o link show dev " + name))
	for i, f := range fields {
		if f == "link/ether" {
			return fields[i+1]
		}
	}
	h.t.Fatal("no MAC", fields)
	return ""
}

// open opens sockets in the host.
func (h *host) open(domain, typ, proto int) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return -1, err
	}
	defer here.Close()
	there, err := netns.GetFromName(h.ns)
	if err != nil {
		return -1, err
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		return -1, err
	}
	defer func() {
		if err := netns.Set(here); err != nil {
			panic(err) // the thread would be in the wrong namespace
		}
	}()
	return unixSocket(domain, typ, proto)
}

// responder starts one in the host.
func (h *host) responder(until func(netip.Prefix) time.Duration) *Responder {
	log := logr.Discard()
	if testing.Verbose() {
		log = testr.NewWithInterface(h.t, testr.Options{}).WithName(h.ns)
	}
	r := New(Options{Log: log, AnswersUntil: until, open: h.open})
	h.t.Cleanup(r.Close)
	return r
}

func (h *host) link4(claims ...netip.Addr) Config {
	return Config{Link: Link{Subnet: subnet4, Self: h.v4()}, AnnounceEvery: time.Hour, Claims: claims}
}

func (h *host) link6(claims ...netip.Addr) Config {
	return Config{Link: Link{Subnet: subnet6, Self: h.v6()}, AnnounceEvery: time.Hour, Claims: claims}
}

func set(t testing.TB, r *Responder, links ...Config) {
	t.Helper()
	if err := r.Set(context.Background(), links); err != nil {
		t.Fatal(err)
	}
}

// within waits until f says nothing any more.
func within(t testing.TB, what string, f func() string) {
	t.Helper()
	wait.True(t, 10*time.Second, 10*time.Millisecond, what, func() (bool, string) {
		wrong := f()
		return wrong == "", wrong
	})
}

// neighbor is what the host's kernel has about an address: its MAC, or the state.
func (h *host) neighbor(addr netip.Addr) string {
	h.t.Helper()
	fields := strings.Fields(h.ip(fmt.Sprintf("neigh show %v dev eth0", addr)))
	for i, f := range fields {
		if f == "lladdr" {
			return fields[i+1]
		}
	}
	return strings.Join(fields, " ")
}

// resolves waits until the host's kernel has found the address at the MAC.
func (h *host) resolves(addr netip.Addr, mac string) {
	h.t.Helper()
	within(h.t, fmt.Sprintf("%s resolves %v as %s", h.ns, addr, mac), func() string {
		h.touch(addr)
		if got := h.neighbor(addr); got != mac {
			return "it has " + got
		}
		return ""
	})
}

// touch has the kernel resolve an address: it sends a datagram there.
func (h *host) touch(addr netip.Addr) {
	h.t.Helper()
	sendDatagram(h.t, h.open, addr)
}
