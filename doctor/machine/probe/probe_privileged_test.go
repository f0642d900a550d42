//go:build privileged

package probe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/wait"
)

// trouble is a way to be in one.
type trouble struct {
	kind    string
	on      string   // the host that it is provoked on; empty: the machine
	provoke string   // commands
	plays   string   // in place of commands: what a program of the machine is, until it ends
	edit    []string // of the inventory: from, to, and so on
	byHand  string   // commands for that host, where those that are printed do not mend it
}

// troubles are of each kind that a network namespace can be in.
var troubles = []trouble{
	{kind: "ForwardingOff", provoke: "sysctl -qw net.ipv4.ip_forward=0"},
	{kind: "ForwardingOff", provoke: "sysctl -qw net.ipv4.conf.eth0.forwarding=0"},
	{kind: "ForwardingOff", provoke: "sysctl -qw net.ipv6.conf.all.forwarding=0"},
	{kind: "ReversePathStrict", provoke: "sysctl -qw net.ipv4.conf.eth0.rp_filter=1"},
	{kind: "ReversePathStrict", provoke: "sysctl -qw net.ipv4.conf.all.rp_filter=1"},
	{kind: "AdvertisementsIgnored", provoke: "ip addr add fd01::99/64 dev eth0 nodad valid_lft 3600 preferred_lft 3600; sysctl -qw net.ipv6.conf.eth0.accept_ra=1"},
	{kind: "HashByAddress", provoke: "sysctl -qw net.ipv4.fib_multipath_hash_policy=0"},
	{kind: "IPv6Disabled", provoke: "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1", byHand: "ip addr add fd01::11/64 dev eth0 nodad"},
	{kind: "AnnouncementsDropped", provoke: "sysctl -qw net.ipv4.conf.eth0.drop_gratuitous_arp=1"},
	{kind: "AnnouncementsDropped", provoke: "sysctl -qw net.ipv6.conf.eth0.drop_unsolicited_na=1"},
	{kind: "PortHeld", plays: "tcp 0.0.0.0:10258", byHand: "true"},
	{kind: "PortHeld", plays: "tcp 127.0.0.1:10268", byHand: "true"},
	{kind: "PortHeld", plays: "udp [::]:3784", byHand: "true"},
	{kind: "SessionHeldByOther", plays: "dial 192.168.1.2:179", byHand: "true"},
	{kind: "VIPOnInterface", provoke: "ip addr add 203.0.113.9/32 dev lo", byHand: "ip addr del 203.0.113.9/32 dev lo"},
	{kind: "VIPOnInterface", provoke: "ip addr add fd01::203/128 dev eth0 nodad", byHand: "ip addr del fd01::203/128 dev eth0"},
	{kind: "VIPOnInterface", provoke: "ip addr add 192.168.1.203/24 dev eth0", byHand: "ip addr del 192.168.1.203/24 dev eth0"},
	{kind: "IPVSAnswers", provoke: "ip link add kube-ipvs0 type bridge; ip addr add 192.168.1.201/32 dev kube-ipvs0"},
	{kind: "PoolAddressAnswered", on: "other", provoke: "ip addr add 192.168.1.202/32 dev eth0", byHand: "ip addr del 192.168.1.202/32 dev eth0"},
	{kind: "PoolAddressAnswered", on: "other", provoke: "ip addr add fd01::202/128 dev eth0 nodad", byHand: "ip addr del fd01::202/128 dev eth0"},
	{kind: "MachineAddressTaken", on: "other", provoke: "ip addr add 192.168.1.11/32 dev eth0", byHand: "ip addr del 192.168.1.11/32 dev eth0"},
	{kind: "MachineAddressMissing", provoke: "ip addr del fd01::11/64 dev eth0", byHand: "ip addr add fd01::11/64 dev eth0 nodad"},
	{kind: "LinkDown", on: "routers", provoke: "ip link set machine down", byHand: "ip link set machine up"},
	{kind: "LinkUnusable", provoke: "ip addr add fd07::11/64 dev lo", byHand: "ip addr del fd07::11/64 dev lo",
		edit: []string{`, "fd01::1"]`, `]`, `"fd01::/64"`, `"fd07::/64"`, `"fd01::11"`, `"fd07::11"`, `fd01::202/127`, `fd07::202/127`}},
	{kind: "RouterUnreachable", provoke: "ip route add unreachable 192.168.1.2/32", byHand: "ip route del unreachable 192.168.1.2/32"},
	{kind: "RouterElsewhere", provoke: "ip link add side0 type bridge; ip link set side0 up; ip route add 192.168.1.2/32 dev side0", byHand: "ip link del side0"},
	{kind: "RouterNotAdjacent", edit: []string{"{name: tor2, address: 192.168.1.2,", "{name: tor2, address: 10.9.9.9,"}, byHand: "true"},
	{kind: "RouterNotAnswering", on: "routers", provoke: "ip addr del 192.168.1.2/24 dev br0", byHand: "ip addr add 192.168.1.2/24 dev br0"},
	{kind: "RouterRefuses", edit: []string{"address: 192.168.1.2,", "address: 192.168.1.2, port: 1789,"}, byHand: "true"},
	{kind: "RouterFiltered", edit: []string{"address: 192.168.1.2,", "address: 192.168.1.2, port: 1791,"}, byHand: "true"},
}

// worlds is how many are in trouble at a time.
const worlds = 4

// TestWhatStandsInTheWayIsFoundAndMended provokes troubles one after the other, runs the commands that are printed, and looks again.
func TestWhatStandsInTheWayIsFoundAndMended(t *testing.T) {
	for number := range worlds {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, number)
			w.well("it was made", testInventory)
			for i := number; i < len(troubles); i += worlds {
				w.mended(troubles[i])
			}
		})
	}
}

// mended provokes a trouble, and does what is printed.
func (w *world) mended(trouble trouble) {
	w.Helper()
	on, inventory := trouble.on, testInventory
	if on == "" {
		on = "machine"
	}
	if trouble.provoke != "" {
		w.shell(on, trouble.provoke)
	}
	if trouble.plays != "" {
		w.play(on, trouble.plays)
	}
	if trouble.edit != nil {
		inventory = strings.NewReplacer(trouble.edit...).Replace(testInventory)
	}
	what := strings.TrimSpace(trouble.kind + " " + trouble.provoke + trouble.plays)
	found := machine.Examine(w.facts(inventory))
	if len(found) != 1 || string(found[0].Kind) != trouble.kind {
		w.Fatalf("%s: found\n%s", what, printed(found))
	}
	commands := commandsOf(found)
	if len(commands) == 0 && trouble.byHand == "" {
		w.Fatalf("%s: no command mends it:\n%s", what, printed(found))
	}
	if strings.Contains(strings.Join(commands, "\n"), doctor.SysctlFiles) { // what is written there is read at boot
		commands = append(commands, "cat "+doctor.SysctlFiles+"* | sysctl -p -")
	}
	if len(commands) > 0 && trouble.kind != "RouterUnreachable" { // there the kernel says to ip that it has no route
		w.shell("machine", strings.Join(commands, "\n"))
	}
	if trouble.byHand != "" {
		w.shell(on, trouble.byHand)
	}
	w.release()
	w.well(what+" was mended", testInventory)
}

// commandsOf are those that are printed, in their order.
func commandsOf(all []doctor.Finding) (commands []string) {
	for _, f := range all {
		for _, m := range f.Mend {
			if m.Run != "" {
				commands = append(commands, m.Run)
			}
		}
	}
	return commands
}

// TestWhatMendsForwardingKeepsTheDefaultRoute follows what is printed where the default route was learned from an advertisement.
func TestWhatMendsForwardingKeepsTheDefaultRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worlds+1)
	w.shell("machine", "sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.eth0.forwarding=0 net.ipv6.conf.eth0.accept_ra=1")
	learned := func() string { return w.shell("machine", "ip -6 route show default") }
	wait.True(t, time.Second, 20*time.Millisecond, "a default route is learned", func() (bool, string) {
		w.play("routers", "advertise br0")
		return learned() != "", ""
	})
	found := machine.Examine(w.facts(testInventory))
	if len(found) != 2 || found[0].Kind != "AdvertisementsIgnored" || found[1].Kind != "ForwardingOff" {
		t.Fatalf("found\n%s", printed(found))
	}
	w.shell("machine", strings.Join(commandsOf(found), "\n"))
	if learned() == "" {
		t.Errorf("the default route is lost by\n%s", printed(found))
	}
	w.well("that", testInventory)
}

// TestNoConnectionIsTriedWhereASpeakerRuns: it may be about to connect, and the router would take one of the two for a restart.
func TestNoConnectionIsTriedWhereASpeakerRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worlds+2)
	w.shell("machine", "cp /bin/sleep "+w.folder+"/bird")
	speaker := w.in("machine", w.folder+"/bird", "600")
	if err := speaker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(speaker) })
	inventory := strings.Replace(testInventory, "address: 192.168.1.2,", "address: 192.168.1.2, port: 1789,", 1)
	want := "whether router tor2, 192.168.1.2, takes connections: bird runs here, and may be about to connect"
	wait.True(t, 8*time.Second, 20*time.Millisecond, "it says "+want, func() (bool, string) {
		facts := w.facts(inventory)
		unread := strings.Join(facts.Unread, "\n")
		return len(machine.Examine(facts)) == 0 && strings.Contains(unread, want), printed(machine.Examine(facts)) + unread
	})
}

// TestNoConnectionIsTriedWhereASpeakerMayBeHidden: a pod without the machine's PID namespace does not see it. Where all sockets are of
// programs that it sees, nothing is hidden.
func TestNoConnectionIsTriedWhereASpeakerMayBeHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worlds+3)
	inventory := strings.Replace(testInventory, "address: 192.168.1.2,", "address: 192.168.1.2, port: 1789,", 1)
	if facts := w.facts(inventory, "unshare", "--pid", "--fork", "--mount-proc"); strings.Contains(strings.Join(facts.Unread, "\n"), "PID namespace") {
		t.Errorf("no program is hidden, and it says %q", facts.Unread)
	}
	w.play("machine", "tcp 127.0.0.1:8080")
	want := "whether router tor2, 192.168.1.2, takes connections: a BGP speaker may run here: want to be in the machine's PID namespace"
	wait.True(t, 8*time.Second, 20*time.Millisecond, "it says "+want, func() (bool, string) {
		facts := w.facts(inventory, "unshare", "--pid", "--fork", "--mount-proc")
		unread := strings.Join(facts.Unread, "\n")
		return len(machine.Examine(facts)) == 0 && strings.Contains(unread, want), printed(machine.Examine(facts)) + unread
	})
}

// TestWhatMayNotBeLookedAtIsNotTakenForHealthy reads as somebody who may neither open packet sockets nor look at other processes.
func TestWhatMayNotBeLookedAtIsNotTakenForHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worlds)
	w.play("machine", "tcp 127.0.0.1:10268")
	facts := w.facts(testInventory, "setpriv", "--bounding-set=-net_raw,-sys_ptrace,-dac_override,-dac_read_search")
	unread := strings.Join(facts.Unread, "\n")
	if found := machine.Examine(facts); len(found) > 0 {
		t.Errorf("found:\n%s", printed(found))
	}
	for _, want := range []string{"which program has port 10268 of TCP: want to be root", "who answers on links: want to be root, or to have the capability NET_RAW"} {
		if !strings.Contains(unread, want) {
			t.Errorf("it does not say %q:\n%s", want, unread)
		}
	}
}
