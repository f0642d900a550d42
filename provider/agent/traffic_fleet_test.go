//go:build fleet

package agent

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientdiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// fleetTraffic counts what all connections of a process carry.
type fleetTraffic struct {
	received, dials, slices, watches atomic.Int64

	mu   sync.Mutex
	open map[*fleetBody]bool
}

// dial opens a connection as client-go does where nothing else is said.
func (t *fleetTraffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t.dials.Add(1)
	conn, err := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return fleetConn{conn, t}, nil
}

// fleetConn is a connection whose bytes are counted.
type fleetConn struct {
	net.Conn
	of *fleetTraffic
}

func (c fleetConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.of.received.Add(int64(n))
	return n, err
}

// wrap has a transport's watches counted, and ended by endWatches.
func (t *fleetTraffic) wrap(transport http.RoundTripper) http.RoundTripper {
	return fleetTransport{transport, t}
}

// endWatches ends all watches as the API server does after five to ten minutes, and returns how many there were. Their connections stay.
func (t *fleetTraffic) endWatches() int {
	t.mu.Lock()
	open := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, w := range open {
		w.ended.Store(true)
		_ = w.Close()
	}
	return len(open)
}

// fleetTransport is a transport whose watches are known.
type fleetTransport struct {
	http.RoundTripper
	of *fleetTraffic
}

func (t fleetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK || r.URL.Query().Get("watch") != "true" {
		return response, err
	}
	opened := &fleetBody{ReadCloser: response.Body, of: t.of}
	response.Body = opened
	t.of.watches.Add(1)
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.of.open[opened] = true
	return response, nil
}

// fleetBody is the body of the answer to a watch.
type fleetBody struct {
	io.ReadCloser
	of    *fleetTraffic
	ended atomic.Bool
}

func (w *fleetBody) Read(into []byte) (int, error) {
	n, err := w.ReadCloser.Read(into)
	if err != nil && w.ended.Load() {
		err = io.EOF // what the API server's own end of a watch is
	}
	return n, err
}

func (w *fleetBody) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w)
	w.of.mu.Unlock()
	return w.ReadCloser.Close()
}

// fleetClient is a client whose events of EndpointSlices are counted.
type fleetClient struct {
	kubernetes.Interface
	of *fleetTraffic
}

func (c fleetClient) DiscoveryV1() clientdiscoveryv1.DiscoveryV1Interface {
	return fleetDiscovery{c.Interface.DiscoveryV1(), c.of}
}

type fleetDiscovery struct {
	clientdiscoveryv1.DiscoveryV1Interface
	of *fleetTraffic
}

func (d fleetDiscovery) EndpointSlices(namespace string) clientdiscoveryv1.EndpointSliceInterface {
	return fleetSlices{d.DiscoveryV1Interface.EndpointSlices(namespace), d.of}
}

type fleetSlices struct {
	clientdiscoveryv1.EndpointSliceInterface
	of *fleetTraffic
}

func (s fleetSlices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := s.EndpointSliceInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if e.Type != watch.Bookmark && e.Type != watch.Error {
			s.of.slices.Add(1)
		}
		return e, true
	}), nil
}
