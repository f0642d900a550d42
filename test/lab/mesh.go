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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab/netns"
)

// Mesh probes from pods to pods, each kind of traffic by a prober of its own, and
// keeps one TCP connection open for each pair and family.
type Mesh struct {
	Probers map[string]*Prober // by what they send: "HTTP IPv4", "ping IPv6" and so on
	streams []*stream
	stop    context.CancelFunc
	ended   sync.WaitGroup
	dialers []*netns.Dialer
}

// pair is one way from pod to pod in one family.
type pair struct {
	name   string // "w1 to w3"
	dialer *netns.Dialer
	to     netip.Addr
}

// How often a pair is probed.
const (
	pingsPerPair    = 20 // a second
	requestsPerPair = 5
	streamPause     = 20 * time.Millisecond // between an answer and the next request on the same connection
	// What the kernel answers is there at once, or lost. What a program answers waits until
	// the machine under the lab has time for it: a request is lost that is never answered.
	pingTimeout = 3 * time.Second
	httpTimeout = 20 * time.Second
)

// ProbeMesh starts probing from each pod to each other one; keep may leave out pairs
// of machines.
func (l *Lab) ProbeMesh(ctx context.Context, pods []corev1.Pod, keep func(from, to string) bool) (*Mesh, error) {
	ctx, stop := context.WithCancel(ctx)
	m := &Mesh{Probers: map[string]*Prober{}, stop: stop}
	for family, is4 := range map[string]bool{"IPv4": true, "IPv6": false} {
		pairs, err := m.pairs(l, pods, is4, keep)
		if err != nil {
			return nil, errors.Join(err, m.Stop())
		}
		m.Probers["HTTP "+family] = probePairs(ctx, pairs)
		if m.Probers["ping "+family], err = pingPairs(ctx, pairs, is4); err != nil {
			return nil, errors.Join(err, m.Stop())
		}
		for _, p := range pairs {
			s := &stream{pair: p, since: time.Now()}
			m.streams = append(m.streams, s)
			m.ended.Go(func() { s.run(ctx) })
		}
	}
	return m, nil
}

func (m *Mesh) pairs(l *Lab, pods []corev1.Pod, is4 bool, keep func(from, to string) bool) (all []pair, err error) {
	for _, from := range pods {
		dialer := netns.NewDialer(l.PodNamespace(from.Spec.NodeName, from.Namespace, from.Name))
		m.dialers = append(m.dialers, dialer)
		for _, to := range pods {
			if from.Name == to.Name || !keep(from.Spec.NodeName, to.Spec.NodeName) {
				continue
			}
			for _, ip := range to.Status.PodIPs {
				a, err := netip.ParseAddr(ip.IP)
				if err != nil {
					return nil, err
				}
				if a.Is4() == is4 {
					all = append(all, pair{from.Spec.NodeName + " to " + to.Spec.NodeName, dialer, a})
				}
			}
		}
	}
	return all, nil
}

// Forget lets reports begin now.
func (m *Mesh) Forget() {
	for _, p := range m.Probers {
		p.Forget()
	}
	for _, s := range m.streams {
		s.forget()
	}
}

// Stop ends all probers; their reports stay.
func (m *Mesh) Stop() error {
	m.stop()
	for _, p := range m.Probers {
		p.Stop()
	}
	m.ended.Wait()
	for _, d := range m.dialers {
		d.Close()
	}
	return nil
}

// probePairs sends requests over all pairs in turn, each over a connection of its own.
func probePairs(ctx context.Context, pairs []pair) *Prober {
	ctx, stop := context.WithCancel(ctx)
	p := &Prober{stop: stop}
	p.sent.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(requestsPerPair*len(pairs)))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case at := <-tick.C:
				to := pairs[n%len(pairs)]
				p.sent.Go(func() { p.pair(to, at) })
			}
		}
	})
	return p
}

func (p *Prober) pair(to pair, at time.Time) {
	client := oneShot(to.dialer)
	client.Timeout = httpTimeout
	err := discard(client, URL(to.to, podPort))
	if err != nil {
		err = fmt.Errorf("%w: %s", err, to.name)
	}
	p.add(probe{at: at, err: err})
}

// discard sends a request and reads its answer to the end.
func discard(c *http.Client, url string) error {
	response, err := c.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// podPort is where the lab's pods listen.
const podPort = 8080

// stream is one TCP connection over which one request follows the other.
type stream struct {
	pair
	mu    sync.Mutex
	since time.Time
	stall time.Duration // the longest wait for an answer
	err   error
}

func (s *stream) run(ctx context.Context) {
	address := netip.AddrPortFrom(s.to, podPort).String()
	conn, err := s.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		s.note(time.Now(), err)
		return
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for ctx.Err() == nil {
		begun := time.Now()
		err := ask(conn, answers, address)
		if s.note(begun, err); err != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(streamPause):
		}
	}
}

// ask sends a request on an open connection and reads its answer.
func ask(conn net.Conn, answers *bufio.Reader, host string) error {
	if err := conn.SetDeadline(time.Now().Add(httpTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func (s *stream) note(begun time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = fmt.Errorf("%s: %w", s.name, err)
	}
	if begun.After(s.since) {
		s.stall = max(s.stall, time.Since(begun))
	}
}

func (s *stream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.stall = time.Now(), 0
}

// Stall is the longest time that an open TCP connection waited for its answer, and
// what went wrong with any of the connections so far.
func (m *Mesh) Stall() (longest time.Duration, err error) {
	for _, s := range m.streams {
		s.mu.Lock()
		longest, err = max(longest, s.stall), errors.Join(err, s.err)
		s.mu.Unlock()
	}
	return longest, err
}
