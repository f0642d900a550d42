//go:build privileged

package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/wait"
)

const testInventory = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 64514}
  podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}
  routers:
    - {name: tor1, addresses: [192.168.1.1, "fd01::1"], asn: 64513}
    - {name: tor2, address: 192.168.1.2, asn: 64513}
  racks:
    - {name: shelf, subnets: [192.168.1.0/24, "fd01::/64"], machines: [{name: w1, addresses: [192.168.1.11, "fd01::11"]}]}
  pools:
    - {name: lan, addresses: [192.168.1.201-192.168.1.203], advertise: {via: link}}
    - {name: lan6, addresses: ["fd01::202/127"], advertise: {via: link}}
    - {name: public, addresses: [203.0.113.0/24], advertise: {via: bgp}}
`

// world is a machine, the routers, which are the switch as well, and another host, each a network namespace.
type world struct {
	*testing.T
	name   string
	folder string
	held   []*exec.Cmd // programs that a trouble has begun
}

// newWorld makes one in which nothing stands in the machine's way.
func newWorld(t *testing.T, number int) *world {
	t.Helper()
	w := &world{T: t, name: fmt.Sprintf("plt%d-%d", os.Getpid(), number), folder: t.TempDir()}
	for _, host := range []string{"machine", "routers", "other"} {
		name := w.namespace(host)
		w.shell("", "ip netns add "+name)
		t.Cleanup(func() { w.shell("", "ip netns del "+name) })
		w.shell(host, "ip link set lo up; sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0")
	}
	w.shell("routers", "ip link add br0 type bridge mcast_snooping 0 forward_delay 0; ip link set br0 up")
	for host, address := range map[string]string{"machine": "11", "other": "77"} {
		w.shell("routers", fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s; ip link set %s master br0 up", host, w.namespace(host), host))
		w.shell(host, fmt.Sprintf("ip link set eth0 up; ip addr add 192.168.1.%s/24 dev eth0; ip addr add fd01::%s/64 dev eth0 nodad", address, address))
	}
	w.shell("routers", "ip addr add 192.168.1.1/24 dev br0; ip addr add 192.168.1.2/24 dev br0; ip addr add fd01::1/64 dev br0 nodad; ip addr add 10.9.9.9/32 dev lo")
	w.shell("machine", `sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.eth0.accept_ra=0 \
net.ipv4.fib_multipath_hash_policy=1 net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.eth0.arp_ignore=0; ip route add 10.9.9.9 via 192.168.1.1`)
	w.play("routers", "tcp 0.0.0.0:179 [::]:1790")
	w.play("routers", "md5 0.0.0.0:1791")
	w.held = nil // these stay
	return w
}

func (w *world) namespace(host string) string { return w.name + "-" + host }

// in is a command in the namespace of a host; empty: in that of the test.
func (w *world) in(host string, words ...string) *exec.Cmd {
	if host != "" {
		words = append([]string{"ip", "netns", "exec", w.namespace(host)}, words...)
	}
	return exec.Command(words[0], words[1:]...)
}

// shell runs commands on a host, as root of a computer whose /etc/sysctl.d is empty, and returns what they print.
func (w *world) shell(host, commands string) string {
	w.Helper()
	const private = `mount -t tmpfs none /etc/sysctl.d && exec sh -e -c "$0"`
	cmd := w.in(host, "sh", "-e", "-c", commands)
	if host != "" {
		cmd = w.in(host, "unshare", "--mount", "sh", "-c", private, commands)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("on %s: %s: %v\n%s", host, commands, err, out)
	}
	return string(out)
}

// play has this program be something on a host until the world ends, or the trouble.
func (w *world) play(host, what string) {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	cmd := w.in(host, self)
	cmd.Env = append(os.Environ(), role+"="+what)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { end(cmd) })
	w.held = append(w.held, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		w.Fatalf("%s on %s: %q, %v", what, host, line, err)
	}
}

// end kills a program that the test began, unless it has ended.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// release ends what troubles have begun.
func (w *world) release() {
	for _, cmd := range w.held {
		end(cmd)
	}
	w.held = nil
}

// facts has the machine be read, by a command that begins with some words.
func (w *world) facts(inventory string, before ...string) machine.Facts {
	w.Helper()
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(w.folder, "inventory.yaml")
	if err := os.WriteFile(file, []byte(inventory), 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := w.in("machine", append(before, self)...)
	cmd.Env = append(os.Environ(), role+"=examine "+file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("examine: %v\n%s", err, errs.String())
	}
	facts, err := machine.Open(out)
	if err != nil {
		w.Fatal(err)
	}
	return facts
}

// well waits until nothing is found.
func (w *world) well(after, inventory string) {
	w.Helper()
	wait.True(w, 8*time.Second, 20*time.Millisecond, "nothing is found after "+after, func() (bool, string) {
		facts := w.facts(inventory)
		seen := printed(machine.Examine(facts)) + strings.Join(facts.Unread, "\n")
		return seen == "", seen
	})
}

func printed(all []doctor.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s: %s\n", f.Kind, f.Message)
		for _, m := range f.Mend {
			fmt.Fprintf(&b, "    %s\n", m)
		}
	}
	return b.String()
}
