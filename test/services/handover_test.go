//go:build slow

package services

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"plinth.dev/plinth/test/apiserver"
)

// slowServer passes requests on to the API server, and one of them late.
type slowServer struct {
	*httputil.ReverseProxy
	armed  atomic.Bool
	delay  time.Duration
	held   chan struct{} // closed when that one has come
	landed chan string   // who has the lease when that one was written
}

// slow returns a kubeconfig that leads to the API server through a slowServer.
func (c *cluster) slow(delay time.Duration) (kubeconfig string, s *slowServer) {
	c.t.Helper()
	target, err := url.Parse(c.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	s = &slowServer{ReverseProxy: httputil.NewSingleHostReverseProxy(target), delay: delay, held: make(chan struct{}), landed: make(chan string, 1)}
	s.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	s.FlushInterval = -1 // watches
	s.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.Context().Value(heldRequest{}) != nil {
			s.landed <- c.leader()
		}
		return nil
	}
	server := httptest.NewTLSServer(s) // over plain HTTP clients send no token
	c.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	config, err := clientcmd.LoadFromFile(c.Limited)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, each := range config.Clusters {
		each.Server = server.URL
	}
	kubeconfig = c.t.TempDir() + "/slow.kubeconfig"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		c.t.Fatal(err)
	}
	return kubeconfig, s
}

// ServeHTTP holds the first claim of an address after it was armed, before the API server
// hears of it. That is written though its sender may be gone by then.
func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/ipaddresses") && s.armed.CompareAndSwap(true, false) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.landed <- err.Error()
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		close(s.held)
		time.Sleep(s.delay)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
		defer cancel()
		r = r.WithContext(context.WithValue(ctx, heldRequest{}, true))
	}
	s.ReverseProxy.ServeHTTP(w, r)
}

type heldRequest struct{} // key of a context

// TestALeaderThatIsToEndHandsOver is an upgrade with the default durations of the lease: a
// leader gets SIGTERM while a claim of its is under way, and a Service is made at that
// moment.
func TestALeaderThatIsToEndHandsOver(t *testing.T) {
	t.Parallel() // it mostly waits
	const delay, most = 2 * time.Second, 10 * time.Second
	c := newCluster(t)
	c.pools(bothPool)
	kubeconfig, proxy := c.slow(delay)
	first := c.Launch("--kubeconfig="+kubeconfig, "--configure-cloud-routes=false", "--leader-elect=true")
	c.service("before")
	c.has("before", "192.0.2.0")
	second := c.Launch("--configure-cloud-routes=false", "--leader-elect=true")
	c.Eventually(20*time.Second, "the second one waits for the lease", func(context.Context) error {
		if n := strings.Count(c.Log(apiserver.ControllerName), "Attempting to acquire leader lease"); n != 2 {
			return fmt.Errorf("%d attempt to acquire it", n)
		}
		return nil
	})
	w, leader := c.watch(), c.leader()

	proxy.armed.Store(true)
	c.service("late")
	<-proxy.held
	begin := time.Now()
	first.AskToEnd()
	c.service("during")
	c.served(3)
	waited := time.Since(begin)
	first.Ended(10 * time.Second)
	t.Logf("a Service that was made when the leader got SIGTERM had its VIP after %v; a claim was under way for %v of that", waited.Round(100*time.Millisecond), delay)
	if waited > most {
		t.Errorf("that is longer than %v", most)
	}
	if code := first.ExitCode(); code != 0 {
		t.Errorf("the leader ended with code %d", code)
	}
	select {
	case then := <-proxy.landed:
		if then != leader {
			t.Errorf("when the claim that was under way was written, %q had the lease, not %s any more", then, leader)
		}
	case <-time.After(time.Minute):
		t.Error("the claim that was under way was never written")
	}
	c.sawNothing(w)
	second.Kill()
}
