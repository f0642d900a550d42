package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/still"
)

// TCPProber opens connections from the outside client to VIPs at a steady rate, with one HTTP request over each, and
// reports what their kernels did: what it calls a fault no busy machine causes, however late its programs are.
//
// An answer to a SYN needs no program, so a SYN that was sent again was lost, as was its answer: the client's kernel
// says so itself (tcpi_total_retrans of TCP_INFO, when the handshake has ended). There is one exception. The kernel
// sends a SYN again after a second, and a machine that stands still for that long, as a virtual one does that gets no
// processor, finds the timer and the answer side by side when it goes on: the timer comes first (TIMER_SOFTIRQ before
// NET_RX_SOFTIRQ). A stall of a second during the handshake is therefore told, and no fault; nothing shorter excuses it.
// Nor is it a fault when a connection is given up after ten seconds of which this machine stood still for one or more.
//
// What a router moves while it is under way is reset by the machine that it comes to, which has never heard of it.
// No clock tells that apart from a pod that has gone, but the kernels of the machines do: they note which connections
// have passed them, and one that has passed two was moved. It is told, and no fault, unless its SYN was sent again.
//
// An ICMP error before the handshake has ended is a fault. Two routers may send packets to each other for some
// milliseconds while one takes a VIP over from the other (Report.NotMoved has why), and a SYN then dies between them.
// That is no fault of machines and cannot be told from one, so this is for stories in which each rack keeps a machine
// that announces the VIP.
type TCPProber struct {
	stop   context.CancelFunc
	sent   sync.WaitGroup // those that send, and connections under way
	stalls still.Watch    // of this machine
	dialer *netns.Dialer
	ports  *ports // of the client
	paths  *paths
	errors *icmpErrors // that the client is sent

	mu     sync.Mutex
	all    []connection
	passed map[flow]passage // once it has stopped
}

// tcpPatience is how long a connection may take, the handshake and the answer together. TCP sends again in growing
// distances what was lost, and a program that gets no processor is late: both end within it.
const tcpPatience = 10 * time.Second

// standsStill is how long a stall is that may have a SYN sent again (TCP_TIMEOUT_INIT of Linux), but for the tick by
// which a stall is noted too short.
const standsStill = time.Second - 2*still.Tick

// connection is what became of one.
type connection struct {
	vip         netip.Addr
	port        int       // of the client
	begun       time.Time // just before its SYN was sent
	established time.Time // zero: the handshake never ended
	ended       time.Time
	again       int // how often its SYN was sent again, as the kernel says
	err         error
}

// ProbeTCP starts a prober that opens so many connections a second to the web servers of each VIP.
func (l *Lab) ProbeTCP(ctx context.Context, rate int, vips ...netip.Addr) (*TCPProber, error) {
	machines := map[string]string{}
	for _, m := range l.Topology.Machines() {
		machines[m.Name] = l.Namespace(m.Name)
	}
	paths, err := notePaths(ctx, machines)
	if err != nil {
		return nil, err
	}
	said, err := noteICMPErrors(l.Namespace(clientHost))
	if err != nil {
		return nil, errors.Join(err, paths.remove(ctx))
	}
	p := &TCPProber{dialer: netns.NewDialer(l.Namespace(clientHost)), ports: &l.outside, paths: paths, errors: said}
	p.start(ctx, rate, vips)
	return p, nil
}

func (p *TCPProber) start(ctx context.Context, rate int, vips []netip.Addr) {
	ctx, p.stop = context.WithCancel(ctx)
	whole, ended := context.WithCancel(context.WithoutCancel(ctx)) // until the last connection has ended, too
	go p.stalls.Run(whole)
	context.AfterFunc(ctx, func() {
		p.sent.Wait()
		ended()
		p.dialer.Close()
	})
	for _, vip := range vips {
		p.sent.Go(func() {
			atRate(ctx, rate, func(time.Time) { p.sent.Go(func() { p.one(vip) }) })
		})
	}
}

func (p *TCPProber) one(vip netip.Addr) {
	// Not the prober's own context: what is under way when it stops is waited for.
	ctx, cancel := context.WithTimeout(context.Background(), tcpPatience)
	defer cancel()
	c := connection{vip: vip, begun: time.Now()}
	var conn net.Conn
	if conn, c.port, c.err = p.ports.dial(ctx, p.dialer, clientHost, netip.AddrPortFrom(vip, WebPort).String()); c.err == nil {
		c.established = time.Now()
		c.again, c.err = sentAgain(conn)
		if c.err = errors.Join(c.err, conn.SetDeadline(c.begun.Add(tcpPatience))); c.err == nil {
			c.err = askOnce(conn)
		}
		conn.Close()
	}
	c.ended = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, c)
}

// sentAgain is how many segments the kernel has sent again over a connection: SYNs, if nothing else was sent yet.
func sentAgain(conn net.Conn) (n int, err error) {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	control := raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int(info.Total_retrans)
		}
	})
	return n, errors.Join(control, err)
}

// askOnce sends a request, and reads the answer until the server has closed the connection.
func askOnce(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// TCPFault is a kind of what no connection may meet.
type TCPFault string

// The kinds of faults.
const (
	Refused     TCPFault = "refused"
	Reset       TCPFault = "reset"
	Unreachable TCPFault = "unreachable"    // as a router or a machine said
	SentAgain   TCPFault = "SYN sent again" // whatever came of it
	Unanswered  TCPFault = "unanswered"     // within ten seconds, or the server ended it before
)

// TCPReport is what became of the connections to one VIP.
type TCPReport struct {
	VIP         netip.Addr
	Connections int
	Faults      map[TCPFault]int
	// Moved are those that ended early since routers had moved them to another machine.
	Moved int
	// StoodStill are those whose SYN was sent again, or that were given up, since this machine stood still for a second.
	StoodStill int
	// LatestAnswer is how long the slowest of those took that had an answer. It is a figure: programs have to run for it.
	LatestAnswer time.Duration

	lines []string // one a fault
}

// Stop ends the prober, waits for the connections under way, and reports what became of those to each VIP. An error
// says why that cannot be told.
func (p *TCPProber) Stop(ctx context.Context) ([]TCPReport, error) {
	p.stop()
	p.sent.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.passed == nil { // else this is not the first time
		passed, err := p.paths.passed(ctx)
		if err = errors.Join(err, p.paths.remove(ctx), p.errors.end()); err != nil {
			return nil, err
		}
		p.passed = passed
	}
	slices.SortFunc(p.all, func(a, b connection) int { return a.begun.Compare(b.begun) })
	var reports []TCPReport
	for _, c := range p.all {
		i := slices.IndexFunc(reports, func(r TCPReport) bool { return r.VIP == c.vip })
		if i < 0 {
			i = len(reports)
			reports = append(reports, TCPReport{VIP: c.vip, Faults: map[TCPFault]int{}})
		}
		if err := p.count(&reports[i], c, p.passed[flow{c.vip, c.port}]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(reports, func(a, b TCPReport) int { return a.VIP.Compare(b.VIP) })
	return reports, nil
}

// count adds a connection that has gone this way to a report.
func (p *TCPProber) count(r *TCPReport, c connection, way passage) error {
	r.Connections++
	if c.err == nil {
		r.LatestAnswer = max(r.LatestAnswer, c.ended.Sub(c.begun))
	}
	if c.again == 0 && c.err == nil {
		return nil
	}
	fault, err := c.fault()
	if err != nil {
		return err
	}
	switch {
	case fault == SentAgain && p.stalls.Longest(c.begun, c.established) >= standsStill,
		fault == Unanswered && timedOut(c.err) && p.stalls.Longest(c.begun, c.ended) >= standsStill:
		r.StoodStill++
	case (fault == Reset || fault == Unanswered) && !c.established.IsZero() && len(way.machines) > 1:
		r.Moved++
	default:
		r.Faults[fault]++
		r.lines = append(r.lines, c.line(fault, way, p.errors.of(flow{c.vip, c.port})))
	}
	return nil
}

// fault is what a connection met that had no answer, or sent its SYN again; an error is of the prober itself.
func (c connection) fault() (TCPFault, error) {
	ended := c.established.IsZero() // before the handshake was over
	switch {
	case c.again > 0:
		return SentAgain, nil
	case ended && errors.Is(c.err, syscall.ECONNREFUSED):
		return Refused, nil
	case ended && (errors.Is(c.err, syscall.EHOSTUNREACH) || errors.Is(c.err, syscall.ENETUNREACH)):
		return Unreachable, nil
	case errors.Is(c.err, syscall.ECONNRESET), errors.Is(c.err, syscall.EPIPE):
		return Reset, nil
	case !ended, errors.Is(c.err, context.DeadlineExceeded), errors.Is(c.err, syscall.ETIMEDOUT):
		return Unanswered, nil
	}
	return "", fmt.Errorf("connecting to %s: %w", c.vip, c.err)
}

// timedOut reports whether a connection was given up.
func timedOut(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// line tells of a fault all that is known of it: also what the client was told of the connection by ICMP.
func (c connection) line(fault TCPFault, way passage, said []string) string {
	text := fmt.Sprintf("%s from port %d, for %s: %s", c.begun.Format(time.StampMilli), c.port, c.ended.Sub(c.begun).Round(time.Millisecond), fault)
	if c.again > 0 {
		text += fmt.Sprintf(" %d times", c.again)
	}
	if len(way.machines) > 0 {
		text += ", passed " + strings.Join(way.machines, " and ")
	} else {
		text += ", passed no machine"
	}
	if len(way.untranslated) > 0 {
		text += ", given no pod's address by " + strings.Join(way.untranslated, " and ")
	}
	if len(said) > 0 {
		text += ", " + strings.Join(said, " and ")
	}
	if c.err != nil {
		text += ": " + c.err.Error()
	}
	return text
}

// Err says what faults there were, with the first of them; nil: there was none.
func (r TCPReport) Err() error {
	if len(r.Faults) == 0 {
		return nil
	}
	const most = 10
	return fmt.Errorf("%s\n%s", r, strings.Join(r.lines[:min(most, len(r.lines))], "\n"))
}

func (r TCPReport) String() string {
	text := fmt.Sprintf("%s: %d connections, the slowest took %s", r.VIP, r.Connections, r.LatestAnswer.Round(time.Millisecond))
	if len(r.Faults) > 0 {
		faults := map[string]int{}
		for fault, n := range r.Faults {
			faults[string(fault)] = n
		}
		text += "; faults: " + counts(faults)
	}
	if r.Moved > 0 {
		text += fmt.Sprintf("; %d ended early, moved by routers to another machine", r.Moved)
	}
	if r.StoodStill > 0 {
		text += fmt.Sprintf("; %d sent their SYN again, or were given up, since this machine stood still for a second", r.StoodStill)
	}
	return text
}
