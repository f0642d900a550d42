package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/test/components"
)

// A server takes some seconds to start, and most tests want nothing but an empty one. So one that a
// test has left whole is given to the next, once etcd holds again what it held at first. What went is
// seen by the API server as if somebody had deleted it.

// servers are those of this process that wait for a test.
var servers pool

// pool is servers that no test has.
type pool struct {
	mu   sync.Mutex
	free []*shared
}

// shared is a server with the rights of the controller manager, which one test after the other has.
type shared struct {
	home    string
	host    string
	guard   net.Listener
	etcd    *Process
	server  *Process
	token   string            // of the controller manager
	content map[string][]byte // of etcd, at first
	writes  int
}

// plain tells whether a server runs as most tests want it.
func (o Options) plain() bool {
	return !o.Controllers && !o.Scheduler && !o.Unaudited && !o.Fresh && len(o.Flags) == 0
}

// take gives a test a server until it ends.
func (p *pool) take(t testing.TB) *Controller {
	t.Helper()
	p.mu.Lock()
	var one *shared
	if n := len(p.free); n > 0 {
		one, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	var c *Controller
	if one == nil {
		one, c = newShared(t)
	} else {
		c = one.given(t)
	}
	c.earlier = one.writes
	t.Cleanup(func() {
		c.tellIfFailed(c.own("kube-apiserver.log"))
		// What it stopped and started is of this test, and has ended.
		whole := c.etcd == one.etcd && c.server == one.server && one.etcd.Running() && one.server.Running() && !t.Failed()
		if whole {
			if err := one.reset(c); err != nil {
				t.Logf("the server is not used again: %v", err)
				whole = false
			}
		}
		if !whole {
			one.close()
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free = append(p.free, one)
	})
	return c
}

// close ends the servers that no test has.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.free {
		one.close()
	}
	p.free = nil
}

// newShared starts a server and remembers what it holds.
func newShared(t testing.TB) (*shared, *Controller) {
	t.Helper()
	home, err := os.MkdirTemp("", "plinth-apiserver-")
	if err != nil {
		t.Fatal(err)
	}
	host, guard := claimHost(t)
	one := &shared{home: home, host: host, guard: guard}
	c := one.empty(t)
	good := false
	defer func() {
		one.etcd, one.server = c.etcd, c.server
		if !good {
			one.close()
		}
	}()
	c.begin(func(program string, args ...string) *Process {
		return c.launch(c.own(program+".log"), components.Environment(), find(t, program), args...)
	})
	one.token = c.giveRights()
	if one.content, err = c.content(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.writes = len(c.Writes())
	good = true
	return one, c
}

// empty is a test's view of a server to which nothing is connected yet.
func (one *shared) empty(t testing.TB) *Controller {
	return &Controller{Server: &Server{t: t, dir: t.TempDir(), home: one.home, Host: one.host, etcd: one.etcd, server: one.server}}
}

// given is a server as a test gets it that is not the first.
func (one *shared) given(t testing.TB) *Controller {
	t.Helper()
	c := one.empty(t)
	one.etcd.t, one.server.t = t, t
	c.connect()
	c.Limited = c.WriteKubeconfig("ccm", one.token)
	return c
}

func (one *shared) close() {
	for _, p := range []*Process{one.server, one.etcd} {
		if p != nil {
			p.Kill()
		}
	}
	one.guard.Close()
	_ = os.RemoveAll(one.home)
}

// reset has etcd hold what it held at first, after all programs of the test have ended. Requests of
// theirs may still be under way, so it looks until nothing changes any more.
func (one *shared) reset(c *Controller) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var differ []string
	for calm := 0; calm < 2; {
		now, err := c.content(ctx)
		if err != nil {
			return fmt.Errorf("%w; it differed in %q", err, differ)
		}
		if maps.EqualFunc(now, one.content, bytes.Equal) {
			calm++
			time.Sleep(20 * time.Millisecond)
			continue
		}
		calm = 0
		if differ, err = c.putBack(ctx, now, one.content); err != nil {
			return err
		}
	}
	c.earlier = 0
	one.writes = len(c.Writes())
	return nil
}

// content is what etcd holds of Kubernetes, but what the API server keeps writing for itself.
func (s *Server) content(ctx context.Context) (map[string][]byte, error) {
	const first, end = "/registry/", "/registry0"
	var answer struct {
		Kvs []struct{ Key, Value []byte }
	}
	if err := s.askEtcd(ctx, "range", map[string][]byte{"key": []byte(first), "range_end": []byte(end)}, &answer); err != nil {
		return nil, err
	}
	if len(answer.Kvs) == 0 {
		return nil, fmt.Errorf("etcd holds nothing under %s", first)
	}
	all := map[string][]byte{}
	for _, kv := range answer.Kvs {
		key := string(kv.Key)
		if !strings.HasPrefix(key, "/registry/masterleases/") && !strings.HasPrefix(key, "/registry/leases/kube-system/apiserver-") {
			all[key] = kv.Value
		}
	}
	return all, nil
}

// putBack removes what is not to be there, writes what is, and returns what that was.
func (s *Server) putBack(ctx context.Context, now, want map[string][]byte) (differ []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, stays := want[key]; !stays {
			differ = append(differ, key)
			if err := s.askEtcd(ctx, "deleterange", map[string][]byte{"key": []byte(key)}, nil); err != nil {
				return differ, err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(now[key], want[key]) {
			differ = append(differ, key)
			if err := s.askEtcd(ctx, "put", map[string][]byte{"key": []byte(key), "value": want[key]}, nil); err != nil {
				return differ, err
			}
		}
	}
	return differ, nil
}
