package lab

import (
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
	// What pods answer is delayed when the machine under the lab is busy, and not lost: a
	// ping, which the kernel answers, shows each packet that is.
	meshTimeout   = 3 * time.Second
	streamTimeout = 15 * time.Second
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
			s := newStream(p)
			m.streams = append(m.streams, s)
			m.ended.Go(func() { s.run(ctx) })
		}
	}
	return m, nil
}

func (m *Mesh) pairs(l *Lab, pods []corev1.Pod, is4 bool, keep func(from, to string) bool) (all []pair, err error) {
	for _, from := range pods {
		dialer := netns.NewDialer(fmt.Sprintf("%s.pod.%s.%s", l.Namespace(from.Spec.NodeName), from.Namespace, from.Name))
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
	client.Timeout = meshTimeout
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

// stream is one TCP connection that is used again and again.
type stream struct {
	pair
	client *http.Client
	mu     sync.Mutex
	dials  int
	since  time.Time
	stall  time.Duration // the longest wait for an answer
	err    error
}

func newStream(p pair) *stream {
	s := &stream{pair: p, since: time.Now()}
	s.client = &http.Client{Timeout: streamTimeout, Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		s.mu.Lock()
		s.dials++
		s.mu.Unlock()
		return p.dialer.DialContext(ctx, network, address)
	}}}
	return s
}

func (s *stream) run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	for ctx.Err() == nil {
		begun := time.Now()
		s.note(begun, discard(s.client, URL(s.to, podPort)))
		select {
		case <-ctx.Done():
		case <-time.After(streamPause):
		}
	}
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
		if s.dials > 1 {
			err = errors.Join(err, fmt.Errorf("%s: the connection was opened %d times", s.name, s.dials))
		}
		s.mu.Unlock()
	}
	return longest, err
}
