package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/kubelet"
	"plinth.dev/plinth/test/lab/netns"
)

// Answer is what a pod of the lab answers to an HTTP request.
type Answer = kubelet.Answer

// Get sends one request from the outside client, over a connection of its own.
func (l *Lab) Get(ctx context.Context, url string) (Answer, error) {
	return l.GetFrom(ctx, clientHost, url)
}

// GetFrom sends one request from a host of the lab.
func (l *Lab) GetFrom(ctx context.Context, host, url string) (Answer, error) {
	return get(ctx, l.Namespace(host), url)
}

// GetFromPod sends one request from a pod, named by the machine it runs on and its own name.
func (l *Lab) GetFromPod(ctx context.Context, machine, namespace, pod, url string) (Answer, error) {
	return get(ctx, l.PodNamespace(machine, namespace, pod), url)
}

// PodNamespace returns the network namespace of a pod, named by the machine it runs on,
// its namespace in Kubernetes and its own name.
func (l *Lab) PodNamespace(machine, namespace, pod string) string {
	return kubelet.PodNetns(l.Namespace(machine), namespace, pod)
}

func get(ctx context.Context, namespace, url string) (Answer, error) {
	dialer := netns.NewDialer(namespace)
	defer dialer.Close()
	return request(ctx, oneShot(dialer), url)
}

// oneShot is an HTTP client that uses no connection twice.
func oneShot(d *netns.Dialer) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

// firstPort and lastPort are below those of NodePorts and those that kernels choose from.
const (
	firstPort = 1024
	lastPort  = 29999
)

// ports are those that the next connections to a server come from.
type ports struct {
	mu   sync.Mutex
	next map[string]int // by the client's host and the server's address and port
}

// take returns the port that has been without a connection from this host to this server for longest.
func (p *ports) take(host, server string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := host + " " + server
	port := max(p.next[key], firstPort)
	if p.next == nil {
		p.next = map[string]int{}
	}
	p.next[key] = port + 1
	if port == lastPort {
		p.next[key] = firstPort
	}
	return port
}

// dial connects from a host to a server, each time from another port. A kernel chooses one again
// after seconds, and what passed a machine before with the same addresses and ports, conntrack
// there knows for two minutes, or for days if the client never ended it there: a connection that
// a router moves to that machine, or opens there, is then taken for the old one, and lost.
func (p *ports) dial(ctx context.Context, d *netns.Dialer, host, server string) (conn net.Conn, port int, err error) {
	for {
		port = p.take(host, server)
		if conn, err = d.DialFrom(ctx, port, server); !errors.Is(err, syscall.EADDRINUSE) {
			return conn, port, err
		}
	}
}

// everNew is oneShot whose connections each come from another port.
func (l *Lab) everNew(host string, d *netns.Dialer) *http.Client {
	dial := func(ctx context.Context, _, server string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, _, err := l.outside.dial(ctx, d, host, server)
		return conn, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// fetch returns what a URL holds, as a host of the lab sees it.
func (l *Lab) fetch(ctx context.Context, host, url string) (string, error) {
	dialer := netns.NewDialer(l.Namespace(host))
	defer dialer.Close()
	body, err := read(ctx, oneShot(dialer), url)
	return string(body), err
}

func read(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

func request(ctx context.Context, c *http.Client, url string) (a Answer, err error) {
	body, err := read(ctx, c, url)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fmt.Errorf("%s: %w: %q", url, err, body)
	}
	return a, nil
}

// URL is where a Service answers at an address.
func URL(vip netip.Addr, port int) string {
	return "http://" + netip.AddrPortFrom(vip, uint16(port)).String() + "/"
}
