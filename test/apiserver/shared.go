package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"plinth.dev/plinth/test/components"
)

// A server takes some seconds to start, and most tests want nothing but an empty one. So one that a
// test has left whole is given to the next, once its datastore holds again what it held at first. What went is
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
	store   *Process
	server  *Process
	token   string                      // of the controller manager
	content map[string]*mvccpb.KeyValue // of the datastore, at first
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
		whole := c.store == one.store && c.server == one.server && one.store.Running() && one.server.Running() && !t.Failed()
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
		one.store, one.server = c.store, c.server
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
	return &Controller{Server: &Server{t: t, dir: t.TempDir(), home: one.home, Host: one.host, store: one.store, server: one.server}}
}

// given is a server as a test gets it that is not the first.
func (one *shared) given(t testing.TB) *Controller {
	t.Helper()
	c := one.empty(t)
	one.store.t, one.server.t = t, t
	c.connect()
	c.Limited = c.WriteKubeconfig("ccm", one.token)
	return c
}

func (one *shared) close() {
	for _, p := range []*Process{one.server, one.store} {
		if p != nil {
			p.Kill()
		}
	}
	one.guard.Close()
	_ = os.RemoveAll(one.home)
}

// reset has the datastore hold what it held at first, after all programs of the test have ended. Requests of
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
		if maps.EqualFunc(now, one.content, sameValue) {
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
