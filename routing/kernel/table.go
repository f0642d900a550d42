package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// Defaults of [Options].
const (
	DefaultProtocol = 114
	DefaultMetric   = 114
)

const batchSize = 128 // messages; even if all fail, the answers fit in a socket's default buffer

// Options say what our routes bear.
type Options struct {
	Protocol uint8  // RTA_PROTOCOL
	Metric   uint32 // of unicast routes; others get 1,000,000 more
}

// Table is the part of the kernel's routing tables that bears our mark.
//
// Unreachable routes for forwarded packets stand in table [ForwardedTable], which
// the rule "not iif lo" leads to: kube-proxy rewrites the destination of what
// comes in before its route is looked up, but of what the node itself
// sends only afterwards, so that in the main table they would cut the node off
// from its own VIPs.
//
// A Table is used by one goroutine. Its sockets are opened by the first call, in
// the network namespace of the thread that makes it.
type Table struct {
	mark     mark
	conn     *conn
	have     []routing.Route // what the kernel holds, if synced
	attempts int             // to read the kernel's tables whole
	families [2]uint8        // IPv4 and IPv6
	lacks    [2]bool         // which families the kernel does not have, if synced
	ruled    [2]bool         // for which families there is our rule, if synced
	synced   bool

	wanted    atomic.Pointer[[]routing.Route] // by the last Set, for the watcher; nil: nothing was set yet
	tunnel    atomic.Uint32                   // index of the tunnel device, which the watcher reads too; 0: none
	tunnelled routing.Tunnel                  // as it is, if synced
	entries   atomic.Pointer[entries]         // that the tunnel is to have; for the watcher
	mtus      atomic.Pointer[mtus]            // of the tunnel and of the link below it; for the watcher
}

// NewTable returns a table that has not looked at the kernel yet.
func NewTable(o Options) *Table {
	return &Table{mark: mark{o.Protocol, o.Metric}, attempts: dumpAttempts, families: [2]uint8{unix.AF_INET, unix.AF_INET6}}
}

// State holds the numbers of desired routes and of those that the kernel has, and the failures.
type State struct {
	Want, Have int
	Changed    int       // routes written or deleted by this call
	Failed     []Failure // sorted like the routes
	Retried    []Failure // of a first attempt, after which the tables were read back and all was tried again
}

// Failure is a route that the kernel did not take, or did not let go.
type Failure struct {
	Route routing.Route
	Err   error
}

func (f Failure) String() string { return f.Route.String() + ": " + f.Err.Error() }

// ErrForeign means that another program's route has the destination and the
// metric that ours would have. It is left alone.
var ErrForeign = errors.New("another program's route has this destination and metric")

// Invalidate makes the next Set read back what the kernel holds.
func (t *Table) Invalidate() { t.synced = false }

// Set makes want, which is sorted and has each key once, the routes that bear our
// mark. Routes are added before others are deleted. What fails does not keep the
// rest from being done: the state says what was reached, the error why not all of it.
// The table keeps want: the caller must not change it later.
// A route in State.Failed has the kernel's error, or [ErrForeign].
func (t *Table) Set(ctx context.Context, want []routing.Route) (State, error) {
	if err := ctx.Err(); err != nil {
		return State{Want: len(want)}, err
	}
	t.wanted.Store(&want) // before the kernel tells of what follows
	state, err := t.set(want)
	if err != nil {
		t.reset()
	}
	if len(state.Failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d routes not as wanted, the first: %v", len(state.Failed), state.Failed[0]))
	}
	return state, err
}

func (t *Table) set(want []routing.Route) (State, error) {
	remembered := t.synced
	state, err := t.attempt(want)
	if remembered && err == nil && len(state.Failed) > 0 {
		t.synced = false // perhaps what we remember is not so any more
		retried := state.Failed
		state, err = t.attempt(want)
		state.Retried = retried
	}
	return state, err
}

func (t *Table) attempt(want []routing.Route) (State, error) {
	complete, err := t.learn()
	if err != nil {
		return State{Want: len(want)}, err
	}
	want = t.possible(want)
	ruleErr := t.setRules(want, complete)
	diff := routing.Diff(t.have, want)
	if !complete {
		diff.Delete = nil // read only in part: what we saw may not be what there is
	}
	result := applied{reached: t.have}
	if !diff.Empty() {
		if result, err = t.apply(diff, want); err != nil {
			return State{Want: len(want)}, err
		}
	}
	t.have, t.synced = result.reached, complete && len(result.failed) == 0 && ruleErr == nil
	return t.state(want, diff, result), ruleErr
}

func (t *Table) state(want []routing.Route, diff routing.Difference, applied applied) State {
	missing := 0
	for _, f := range applied.failed {
		if _, wanted := slices.BinarySearchFunc(want, f.Route, routing.Route.Compare); wanted {
			missing++
		}
	}
	n := len(diff.Add) + len(diff.Replace) + len(diff.Delete)
	return State{Want: len(want), Have: len(want) - missing, Changed: n - len(applied.failed), Failed: applied.failed}
}

// open opens the socket, unless it is.
func (t *Table) open() (err error) {
	if t.conn == nil {
		t.conn, err = dial()
		t.synced = false
	}
	return err
}

// learn reads the routes that the kernel holds unless the table is synced. It reports whether all was read.
func (t *Table) learn() (complete bool, err error) {
	if err := t.open(); err != nil {
		return false, err
	}
	if t.synced {
		return true, nil
	}
	tunnel, err := deviceOf(t.tunnelled)
	if err != nil {
		return false, err
	}
	t.tunnel.Store(tunnel)
	if err := t.learnFamilies(); err != nil {
		return false, err
	}
	for range t.attempts {
		if t.have, err = t.read(); !errors.Is(err, errInterrupted) {
			return err == nil, err
		}
	}
	return false, nil
}

// read returns our routes as the kernel holds them. Of two that share a key,
// which only another program can have made, it deletes both.
func (t *Table) read() ([]routing.Route, error) {
	all := make([]routing.Route, 0, len(t.have)+batchSize)
	links, interrupted := connected()
	if interrupted != nil && !errors.Is(interrupted, errInterrupted) {
		return nil, interrupted
	}
	reader := reader{mark: t.mark, tunnel: t.tunnel.Load(), links: &links}
	for _, family := range t.families {
		for _, table := range []uint8{unix.RT_TABLE_MAIN, ForwardedTable} {
			err := t.list(reader, family, table, func(r routing.Route) { all = append(all, r) })
			switch {
			case errors.Is(err, unix.ENOENT): // the table does not exist: it has no route yet
			case errors.Is(err, errInterrupted):
				interrupted = err
			case err != nil:
				return nil, err
			}
		}
	}
	slices.SortFunc(all, routing.Route.Compare)
	return t.unique(all), interrupted
}

// list calls each with our routes of one family and table. Asked for a family that it
// does not have, as IPv6 on a machine that was started with ipv6.disable=1, the kernel
// answers with the routes of all others.
func (t *Table) list(reader reader, family, table uint8, each func(routing.Route)) error {
	b := batch{first: t.conn.nextSeq(1)}
	b.list(family, table, t.mark.protocol)
	return t.conn.dump(b.buf, b.first, func(h unix.NlMsghdr, body []byte) {
		if r, ours := reader.decode(body); ours && h.Type == unix.RTM_NEWROUTE && body[0] == family {
			each(r)
		}
	})
}

// unique keeps one route of each key and makes it differ from all wanted ones
// where there were several, so that it is written anew.
func (t *Table) unique(sorted []routing.Route) []routing.Route {
	kept := sorted[:0]
	for _, route := range sorted {
		if n := len(kept); n > 0 && kept[n-1].Key() == route.Key() {
			_, _ = t.exchange(1, func(b *batch, _ int) { t.remove(b, route) })
			kept[n-1].Via = routing.NextHops{}
			continue
		}
		kept = append(kept, route)
	}
	return kept
}

func (t *Table) reset() {
	if t.conn != nil {
		t.conn.close()
		t.conn = nil
	}
	t.synced = false
}

// Close closes the sockets and leaves the routes where they are.
func (t *Table) Close() { t.reset() }
