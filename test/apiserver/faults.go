package apiserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Faults stands between programs and the API server. It fails some of what it is asked, as
// networks do that lose answers, and servers under stress.
type Faults struct {
	URL string // where it listens

	server    *httptest.Server
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	late      sync.WaitGroup // writes that arrive later

	mu      sync.Mutex
	random  *rand.Rand
	rate    float64 // of requests that fail
	counts  map[string]int
	watches map[int]context.CancelFunc
	opened  int
}

// fault is one way to fail a request.
type fault struct {
	name   string
	writes bool // writes alone are failed like that
	fail   func(f *Faults, w http.ResponseWriter, r *http.Request)
}

var faults = []fault{
	{"500", false, func(_ *Faults, w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}},
	{"429", false, func(_ *Faults, w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	}},
	{"429, to be tried again", false, func(_ *Faults, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	}},
	{"409", true, func(_ *Faults, w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	}},
	{"request lost", false, func(_ *Faults, _ http.ResponseWriter, _ *http.Request) { lose() }},
	{"answer lost", true, func(f *Faults, _ http.ResponseWriter, r *http.Request) {
		f.outgoing(r)()
		lose()
	}},
	{"500 after the write", true, func(f *Faults, w http.ResponseWriter, r *http.Request) {
		f.outgoing(r)()
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}},
	{"given up, and written later", true, func(f *Faults, _ http.ResponseWriter, r *http.Request) {
		send, after := f.outgoing(r), f.upTo(latest)
		f.late.Go(func() {
			time.Sleep(after)
			send()
		})
		lose()
	}},
}

// latest is how late a write may arrive whose sender has given it up.
const latest = 500 * time.Millisecond

// Faults starts one before the server, for the time of the test. It fails nothing until it
// is told to.
func (s *Server) Faults(seed uint64) *Faults {
	s.t.Helper()
	target, err := url.Parse(s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	f := &Faults{
		transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true},
		random:    rand.New(rand.NewPCG(seed, 0)),
		counts:    map[string]int{},
		watches:   map[int]context.CancelFunc{},
	}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     f.transport,
		FlushInterval: -1, // a watch tells each event at once
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { lose() },
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients are killed
	f.server.StartTLS()
	f.URL = f.server.URL
	s.t.Cleanup(func() {
		f.CutWatches()
		f.server.CloseClientConnections()
		f.server.Close()
		f.late.Wait()
		f.transport.CloseIdleConnections()
	})
	return f
}

// Fail has that part of all requests fail from now on, from 0 to 1.
func (f *Faults) Fail(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// Counts are how many requests were failed so far, by the way.
func (f *Faults) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Kinds is in how many ways requests fail.
func (f *Faults) Kinds() int { return len(faults) }

// CutWatches breaks off all watches that are open.
func (f *Faults) CutWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cut := range f.watches {
		cut()
	}
}

// ServeHTTP fails a request, or passes it on.
func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := f.pick(r.Method != http.MethodGet); fault != nil {
		fault.fail(f, w, r)
		return
	}
	if watch := r.URL.Query().Get("watch"); watch == "true" || watch == "1" {
		ctx, done := f.watch(r.Context())
		defer done()
		r = r.WithContext(ctx)
	}
	f.proxy.ServeHTTP(w, r)
}

// pick decides how a request fails; nil: it does not. It is one of the ways that came least
// often so far, so that none is left out where little is asked.
func (f *Faults) pick(writes bool) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.Float64() >= f.rate {
		return nil
	}
	var least *fault
	for _, i := range f.random.Perm(len(faults)) {
		if one := &faults[i]; (writes || !one.writes) && (least == nil || f.counts[one.name] < f.counts[least.name]) {
			least = one
		}
	}
	f.counts[least.name]++
	return least
}

func (f *Faults) upTo(limit time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(limit)))
}

// watch notes a watch that is open, until done.
func (f *Faults) watch(ctx context.Context) (_ context.Context, done func()) {
	ctx, cut := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	number := f.opened
	f.watches[number] = cut
	return ctx, func() {
		cut()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches, number)
	}
}

// outgoing returns what sends a write to the server, whether or not somebody still waits for
// the answer.
func (f *Faults) outgoing(r *http.Request) (send func()) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		lose() // the client is gone
	}
	out := &httputil.ProxyRequest{In: r, Out: r.Clone(context.WithoutCancel(r.Context()))}
	f.proxy.Rewrite(out)
	out.Out.RequestURI, out.Out.Body = "", io.NopCloser(bytes.NewReader(content))
	return func() {
		answer, err := f.transport.RoundTrip(out.Out)
		if err != nil {
			return // the server is not there: the request is lost, too
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

// lose ends a request without an answer.
func lose() { panic(http.ErrAbortHandler) }

// refuse answers as the API server does when it fails a request.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "a fault of the test"}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status) // whoever asked may be gone
}
