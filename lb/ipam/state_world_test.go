package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
)

// cluster is an API server, and the controller that has a State, as few lines as both can be.
// Any write may fail, lose its answer, or be the last that the controller does.
type cluster struct {
	t         *rapid.T
	inv       *inventory.Inventory
	now       time.Time
	calm      bool // nothing fails
	disturbed bool // somebody deletes claims
	objects   map[netip.Addr]Object
	services  map[lb.ServiceKey]*liveService
	watch     []func(*State) Effects // what it has not told yet
	written   []Quarantined          // of what was released
	changes   int

	state *State
	queue map[lb.ServiceKey]bool
}

// liveService is a Service as the API server has it.
type liveService struct {
	Request
	uid   string
	made  int  // the later the higher
	gone  bool // it is being deleted, and somebody's finalizer keeps it
	shown []netip.Addr
	first [2]netip.Addr // that it was seen to show, by family
}

// asks is what it asks for at this moment.
func (svc *liveService) asks() Request {
	r := svc.Request
	r.UID, r.Shown = svc.uid, svc.shown
	return r
}

// dead is what the controller ends with.
type dead struct{}

var errLost = errors.New("no answer")
var errChanged = errors.New("it is another by now")

// write does something at the API server, if nothing comes in between.
func (c *cluster) write(do func() error) error {
	fate := 9
	if !c.calm {
		fate = rapid.IntRange(0, 15).Draw(c.t, "fate")
	}
	switch fate {
	case 0:
		return errLost
	case 1:
		_ = do()
		return errLost
	case 2:
		panic(dead{})
	case 3:
		_ = do()
		panic(dead{})
	}
	return do()
}

// put has the API server have an object, and tell it some time.
func (c *cluster) put(o Object) Object {
	c.changes++
	o.Version = strconv.Itoa(c.changes)
	if o.UID == "" {
		o.UID = "object " + o.Version
	}
	c.objects[o.Addr] = o
	c.watch = append(c.watch, func(s *State) Effects { return s.Observe(o, c.serving(s.Newcomers(o)), false) })
	return o
}

// serving is what those serve that are to be served.
func (c *cluster) serving(keys []lb.ServiceKey) (all []Holder) {
	for _, k := range keys {
		if svc := c.services[k]; svc != nil && !svc.gone {
			all = append(all, svc.Holder)
		}
	}
	return all
}

// send carries out one Write, and has the State know. It reports whether it knows what was written.
func (c *cluster) send(w Write, pool string, k lb.ServiceKey, uid string) (known bool, err error) {
	a, after, asked := w.Object.Addr, Object{}, c.state.DeletionsTold()
	err = c.write(func() error {
		now, there := c.objects[a]
		if there == (w.Verb == Create) || there && now.Version != w.Object.Version {
			return errChanged
		}
		switch w.Verb {
		case Create:
			after = c.put(Object{Addr: a, Created: c.now, Pool: pool, Parent: k, ParentUID: uid, Holders: []lb.ServiceKey{k}})
		case Update:
			now.Holders, now.ParentUID = w.Holders, w.ParentUID
			after = c.put(now)
		default: // nothing is written
		}
		return nil
	})
	c.meanwhile(a)
	switch {
	case err == nil && c.state.IsDoubtful(after, asked):
		err = errChanged
	case err == nil:
		c.follow(c.state.ObserveWrite(after, c.serving(c.state.Newcomers(after))))
	}
	return err == nil, c.refreshed(a, err)
}

// meanwhile is what happens while an answer about an address is under way: somebody deletes its
// object now and then, and the watch may tell of that first.
func (c *cluster) meanwhile(a netip.Addr) {
	if c.calm || !c.disturbed || rapid.IntRange(0, 7).Draw(c.t, "meanwhile") > 0 {
		return
	}
	if o, there := c.objects[a]; there {
		c.drop(o)
	}
	if rapid.IntRange(0, 3).Draw(c.t, "lists anew") == 0 {
		c.relist()
	}
	for range rapid.IntRange(0, len(c.watch)).Draw(c.t, "tells first") {
		c.tell()
	}
}

// relist has the watch lose what it has not told yet, and list all objects anew.
func (c *cluster) relist() {
	c.watch = nil
	version := strconv.Itoa(c.changes)
	c.state.ObserveList(version)
	for _, a := range slices.SortedFunc(maps.Keys(c.objects), netip.Addr.Compare) {
		c.follow(c.state.Observe(c.objects[a], c.serving(c.state.Newcomers(c.objects[a])), false))
	}
	for _, o := range c.state.Objects() {
		if _, there := c.objects[o.Addr]; !there {
			c.follow(c.state.ObserveDeleted(o.Addr, o.UID, version, c.now))
		}
	}
}

// drop has the API server delete an object, and tell it some time.
func (c *cluster) drop(o Object) {
	c.changes++
	version := strconv.Itoa(c.changes)
	delete(c.objects, o.Addr)
	c.watch = append(c.watch, func(s *State) Effects { return s.ObserveDeleted(o.Addr, o.UID, version, c.now) })
}

// remove deletes an object as it is known, and has the State know.
func (c *cluster) remove(o Object) error {
	err := c.write(func() error {
		if now := c.objects[o.Addr]; now.Version != o.Version {
			return errChanged
		}
		c.drop(o)
		return nil
	})
	if err == nil {
		c.state.Deleted(o)
	}
	return c.refreshed(o.Addr, err)
}

// refreshed has the State know an object that is not as it was known.
func (c *cluster) refreshed(a netip.Addr, err error) error {
	if !errors.Is(err, errChanged) {
		return err
	}
	for {
		asked := c.state.DeletionsTold()
		now, there := c.objects[a]
		c.meanwhile(a)
		switch {
		case !there:
			c.follow(c.state.ObserveDeleted(a, "", "", c.now))
		case c.state.IsDoubtful(now, asked):
			continue
		default:
			c.follow(c.state.Observe(now, c.serving(c.state.Newcomers(now)), true))
		}
		return nil
	}
}

func (c *cluster) follow(e Effects) {
	for _, r := range e.Reconcile {
		c.queue[r.Service] = true
	}
}

// begin is a leader that knows nothing.
func (c *cluster) begin() {
	c.state, c.queue, c.watch = NewState(), map[lb.ServiceKey]bool{}, nil
	c.state.Quarantine(c.written, c.now)
	keys := slices.SortedFunc(maps.Keys(c.services), func(x, y lb.ServiceKey) int { return cmp.Compare(c.services[x].made, c.services[y].made) })
	var all []Request
	for _, k := range keys {
		all = append(all, c.services[k].asks())
	}
	c.follow(c.state.Load(slices.SortedFunc(maps.Values(c.objects), func(x, y Object) int { return x.Addr.Compare(y.Addr) }), all))
	c.state.SetPools(c.inv)
	for _, k := range keys {
		if svc := c.services[k]; !svc.gone {
			_, _, e := c.state.Adopt(svc.asks(), c.now)
			c.follow(e)
		}
	}
	for _, k := range keys {
		if svc := c.services[k]; svc.gone {
			c.follow(c.state.ObserveShown(k, svc.shown))
		}
		c.queue[k] = true
	}
	c.follow(c.state.OfferAll(c.now))
}

// lives does something as the controller, and has another begin if it dies.
func (c *cluster) lives(do func()) {
	defer func() {
		if r := recover(); r == (dead{}) {
			c.begin()
		} else if r != nil {
			panic(r)
		}
	}()
	do()
}

// reconcile looks at one Service.
func (c *cluster) reconcile(k lb.ServiceKey) {
	delete(c.queue, k)
	err := error(nil)
	if svc := c.services[k]; svc != nil && !svc.gone {
		err = c.serve(k, svc)
	} else {
		err = c.letGo(k, svc)
	}
	if err != nil {
		c.queue[k] = true
	}
}

func (c *cluster) serve(k lb.ServiceKey, svc *liveService) error {
	for range 8 {
		d, e := c.state.Request(svc.asks(), c.now)
		c.follow(e)
		if len(d.Unreported) > 0 {
			if err := c.release(k, svc.uid, d.Unreported); err != nil {
				return err
			}
			continue
		}
		if ok, err := c.acquire(k, svc, d); err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		c.follow(c.state.Settle(svc.asks(), d, c.now))
		if err := c.release(k, svc.uid, minus(d.Release, svc.shown...)); err != nil {
			return err
		}
		want := d.Addrs()
		if !slices.Equal(want, svc.shown) {
			if err := c.write(func() error { svc.shown = want; return nil }); err != nil {
				return err
			}
		}
		if c.state.HoldsMore(k) {
			c.queue[k] = true
		}
		return c.review(k)
	}
	return errChanged
}

// review lets others have what a status shows no more.
func (c *cluster) review(k lb.ServiceKey) error {
	var shown []netip.Addr
	if svc := c.services[k]; svc != nil {
		shown = svc.shown
	}
	c.follow(c.state.ObserveCleared(k, shown, c.now))
	return nil
}

func (c *cluster) acquire(k lb.ServiceKey, svc *liveService, d Decision) (bool, error) {
	for i, v := range d.VIPs {
		ok, err := false, error(nil)
		for range 8 {
			w := c.state.ToHold(v.Addr, k, svc.uid, slices.Contains(svc.shown, v.Addr))
			if w.Verb == Nothing || w.Verb == Refused {
				ok = w.Verb == Nothing
				break
			}
			if ok, err = c.send(w, v.Pool, k, svc.uid); ok || err != nil {
				break
			}
		}
		if err != nil || !ok {
			c.follow(c.state.Revert(k, d.VIPs[i:]))
			return false, err
		}
	}
	return true, nil
}

func (c *cluster) release(k lb.ServiceKey, uid string, all []netip.Addr) error {
	for _, a := range all {
		first := c.state.Object(a)
		for {
			w, e := c.state.ToRelease(a, k, uid, first, c.now)
			c.follow(e)
			if w.Verb == Nothing {
				break
			}
			if w.Verb == Another && c.services[k] == nil || w.Verb == Another && c.services[k].uid == uid {
				uid = "" // an earlier one of the name claimed it
				continue
			}
			if w.Verb != Update {
				return errChanged
			}
			if _, err := c.send(w, "", k, uid); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) letGo(k lb.ServiceKey, svc *liveService) error {
	uid := ""
	if svc != nil {
		uid = svc.uid
		c.follow(c.state.ObserveShown(k, svc.shown))
		if len(svc.shown) > 0 {
			if err := c.write(func() error { svc.shown = nil; return nil }); err != nil {
				return err
			}
		}
	}
	if err := c.release(k, uid, c.state.Holds(k)); err != nil {
		return err
	}
	c.state.Forget(k)
	return c.review(k)
}

// writeReleased writes down what is in quarantine, and then removes objects.
func (c *cluster) writeReleased() {
	all, releasing := c.state.Quarantined(c.now)
	if c.write(func() error { c.written = all; return nil }) != nil {
		return
	}
	for _, o := range releasing {
		if now := c.state.Releasing(o.Addr); now != nil && now.Version == o.Version && c.remove(o) != nil {
			return
		}
	}
}

// tell has the watch tell what comes next.
func (c *cluster) tell() {
	if len(c.watch) > 0 {
		next := c.watch[0]
		c.watch = c.watch[1:]
		c.follow(next(c.state))
	}
}

// settles has all come to rest without a fault.
func (c *cluster) settles() {
	c.calm = true
	for range 40 {
		for len(c.watch) > 0 {
			c.tell()
		}
		for k := range c.services {
			c.queue[k] = true
		}
		for _, h := range c.state.Holdings() {
			for _, x := range h.Holders {
				c.queue[x.Service] = true // the audit finds those that are gone
			}
		}
		for _, k := range slices.SortedFunc(maps.Keys(c.queue), lb.ServiceKey.Compare) {
			c.reconcile(k)
		}
		c.writeReleased()
	}
	c.calm = false
}

func (c *cluster) String() string {
	text := ""
	for _, k := range slices.SortedFunc(maps.Keys(c.services), lb.ServiceKey.Compare) {
		svc := c.services[k]
		text += fmt.Sprintf("%v (%s) gone %v shows %v, holds %v\n", k, svc.uid, svc.gone, svc.shown, c.state.Holds(k))
	}
	for _, a := range slices.SortedFunc(maps.Keys(c.objects), netip.Addr.Compare) {
		text += fmt.Sprintf("%v names %v\n", a, c.objects[a].Holders)
	}
	return text
}
