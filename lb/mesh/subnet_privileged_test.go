//go:build privileged

package mesh

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
)

var subnet = netip.MustParsePrefix("10.77.0.0/24")

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}) }

func name(i int) string { return fmt.Sprintf("m%02d", i) }

// report is what a machine prints with each change.
type report struct {
	At    time.Duration // uptime
	Until time.Duration // AnswersUntil
	State []LinkState
}

// part is what this process is to do as a machine.
type part struct {
	Self, Of, HandOver int
	Witness            []netip.Addr
	Leaving            bool
}

func TestMain(m *testing.M) {
	if p := os.Getenv("PLINTH_MESH_PART"); p != "" {
		beMachine(p)
		return
	}
	os.Exit(m.Run())
}

func beMachine(text string) {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	c := Config{Subnet: subnet, Self: address(p.Self), Witness: p.Witness, RestartTime: 5 * time.Second, Leaving: p.Leaving}
	for i := range p.Of {
		if i != p.Self {
			c.Machines = append(c.Machines, Machine{name(i), address(i)})
		}
	}
	m := New(Options{Answers: answersARP})
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	out := json.NewEncoder(os.Stdout)
	if err := m.Set(context.Background(), []Config{c}); err != nil {
		panic(err)
	}
	for {
		select {
		case <-m.Changed():
			state := m.State()
			m.Acted(state)
			until := m.AnswersUntil(subnet)
			_ = out.Encode(report{uptime.Now(), until, state})
		case <-end:
			m.Close(context.Background(), time.Duration(p.HandOver)*time.Second)
			return
		}
	}
}

// answersARP asks for an address three times.
func answersARP(ctx context.Context, _ netip.Prefix, addr netip.Addr) bool {
	nic, err := net.InterfaceByName("eth0")
	if err != nil {
		return false
	}
	proto := uint16(unix.ETH_P_ARP>>8 | unix.ETH_P_ARP&0xff<<8)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	to := &unix.SockaddrLinklayer{Protocol: proto, Ifindex: nic.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	own, _ := nic.Addrs()
	if len(own) == 0 || unix.Bind(fd, to) != nil {
		return false
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 5000})
	ask := binary.BigEndian.AppendUint16([]byte{0, 1, 8, 0, 6, 4}, 1)
	ask = append(append(ask, nic.HardwareAddr...), own[0].(*net.IPNet).IP.To4()...)
	ask = append(append(ask, 0, 0, 0, 0, 0, 0), addr.AsSlice()...)
	buf := make([]byte, 64)
	for range 3 {
		_ = unix.Sendto(fd, ask, 0, to)
		for begin := time.Now(); time.Since(begin) < 35*time.Millisecond && ctx.Err() == nil; {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err == nil && n >= 28 && buf[7] == 2 && netip.AddrFrom4([4]byte(buf[14:18])) == addr {
				return true
			}
		}
	}
	return false
}

// run runs a command line.
func run(t testing.TB, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// machine is a namespace on the bridge, and the process in it.
type machine struct {
	t    testing.TB
	ns   string
	part part
	cmd  *exec.Cmd

	mu  sync.Mutex
	all []report // of the process that runs now
}

// lan is a bridge with so many machines, all running.
func lan(t testing.TB, n int, change func(*part)) []*machine {
	t.Helper()
	id := fmt.Sprintf("msh%d", os.Getpid())
	run(t, "ip netns add "+id+" && ip -n "+id+" link add br0 type bridge && ip -n "+id+" link set br0 up && ip -n "+id+" addr add 10.77.0.254/24 dev br0")
	t.Cleanup(func() { run(t, "ip netns del "+id) })
	var all []*machine
	for i := range n {
		m := &machine{t: t, ns: fmt.Sprintf("%s-%d", id, i), part: part{Self: i, Of: n}}
		run(t, fmt.Sprintf("ip netns add %[1]s && ip -n %[2]s link add v%[3]d type veth peer name eth0 netns %[1]s && ip -n %[2]s link set v%[3]d master br0 up && ip -n %[1]s addr add %[4]v/24 dev eth0 && ip -n %[1]s link set eth0 up", m.ns, id, i, address(i)))
		t.Cleanup(func() { run(t, "ip netns del "+m.ns) })
		if change != nil {
			change(&m.part)
		}
		all = append(all, m)
	}
	for _, m := range all {
		m.start()
	}
	return all
}

func (m *machine) start() {
	m.t.Helper()
	text, _ := json.Marshal(m.part)
	m.cmd = exec.Command("ip", "netns", "exec", m.ns, os.Args[0])
	m.cmd.Env = append(os.Environ(), "PLINTH_MESH_PART="+string(text))
	m.cmd.Stderr = os.Stderr
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.all = nil
	m.mu.Unlock()
	cmd := m.cmd
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	go m.follow(bufio.NewScanner(out))
}

func (m *machine) follow(lines *bufio.Scanner) {
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			m.mu.Lock()
			m.all = append(m.all, r)
			m.mu.Unlock()
		}
	}
}

func (m *machine) signal(s os.Signal) time.Duration {
	m.t.Helper()
	before := uptime.Now()
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
	return before
}

// sees is what m says of another machine in a report.
func (r report) sees(other *machine) MachineState {
	for _, l := range r.State {
		for _, s := range l.Machines {
			if s.Name == name(other.part.Self) {
				return s
			}
		}
	}
	return MachineState{}
}

// when waits until m says so of another machine after a time, and returns when it did.
func (m *machine) when(since time.Duration, other *machine, want advertise.Standing) time.Duration {
	m.t.Helper()
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		m.mu.Lock()
		for _, r := range m.all {
			if r.At >= since && r.sees(other).Standing == want {
				m.mu.Unlock()
				return r.At
			}
		}
		m.mu.Unlock()
	}
	m.t.Fatalf("%s never sees %s %v: %v", m.ns, other.ns, want, m.seen(since, other))
	return 0
}

// seen are the standings that m reported of another machine since then.
func (m *machine) seen(since time.Duration, other *machine) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, r := range m.all {
		if s := r.sees(other).Standing.String(); r.At >= since && (len(all) == 0 || all[len(all)-1] != s) {
			all = append(all, s)
		}
	}
	return strings.Join(all, " ")
}

// allUp waits until everybody sees everybody up.
func allUp(all []*machine, since time.Duration) {
	for _, a := range all {
		for _, b := range all {
			if a != b {
				a.when(since, b, advertise.Up)
			}
		}
	}
}
