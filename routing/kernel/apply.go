package kernel

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/routing"
)

// applied is the outcome of a difference that was written.
type applied struct {
	reached []routing.Route // what the kernel holds now, sorted
	failed  []Failure
}

// operation is one message and what its failure means.
type operation struct {
	route routing.Route
	write func(*batch, routing.Route)
	mend  func(error) error // turns an error into what to report, nil if it is none
}

// apply writes a difference: what is new first, what is gone last, so that at no
// moment a pod that both tables reach is not reached.
func (t *Table) apply(difference routing.Difference, want []routing.Route) (applied, error) {
	ops := make([]operation, 0, len(difference.Add)+len(difference.Replace)+len(difference.Delete))
	for _, r := range difference.Add {
		ops = append(ops, operation{r, t.add, mendAdd})
	}
	for _, r := range difference.Replace {
		ops = append(ops, operation{r, t.replace, mendNothing})
	}
	for _, r := range difference.Delete {
		ops = append(ops, operation{r, t.remove, mendDelete})
	}
	var failed []Failure
	for chunk := range slices.Chunk(ops, batchSize) {
		f, err := t.send(chunk)
		if err != nil {
			return applied{}, err
		}
		failed = append(failed, f...)
	}
	slices.SortFunc(failed, func(a, b Failure) int { return a.Route.Compare(b.Route) })
	return applied{reached: t.reached(want, failed), failed: failed}, nil
}

func (t *Table) add(b *batch, r routing.Route) { b.put(t.mark, r, unix.NLM_F_EXCL, t.tunnel.Load()) }
func (t *Table) replace(b *batch, r routing.Route) {
	b.put(t.mark, r, unix.NLM_F_REPLACE, t.tunnel.Load())
}

func (t *Table) remove(b *batch, r routing.Route) { b.remove(t.mark, r) }

func mendAdd(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return ErrForeign
	}
	return err
}

func mendNothing(err error) error { return err }

func mendDelete(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil // gone already
	}
	return err
}

func (t *Table) send(ops []operation) ([]Failure, error) {
	refused, err := t.exchange(len(ops), func(b *batch, i int) { ops[i].write(b, ops[i].route) })
	if err != nil {
		return nil, err
	}
	var failed []Failure
	for i, err := range refused {
		if err := ops[i].mend(err); err != nil {
			failed = append(failed, Failure{ops[i].route, err})
		}
	}
	return failed, nil
}

// exchange sends n messages at once and returns the errors that came back, by message.
func (t *Table) exchange(n int, write func(b *batch, i int)) (map[int]error, error) {
	b := batch{first: t.conn.nextSeq(n), buf: make([]byte, 0, 128*n)}
	for i := range n {
		write(&b, i)
	}
	b.acknowledge()
	return t.conn.request(b.buf, b.first, b.n)
}

// reached returns the routes that the kernel holds after want was written but for the failures: a
// route that failed is as it was before.
func (t *Table) reached(want []routing.Route, failed []Failure) []routing.Route {
	if len(failed) == 0 {
		return want
	}
	kept := make([]routing.Route, 0, len(want))
	for _, r := range want {
		if _, bad := slices.BinarySearchFunc(failed, r, func(f Failure, r routing.Route) int { return f.Route.Compare(r) }); !bad {
			kept = append(kept, r)
		}
	}
	for _, f := range failed {
		if i, had := slices.BinarySearchFunc(t.have, f.Route, routing.Route.Compare); had {
			kept = append(kept, t.have[i])
		}
	}
	slices.SortFunc(kept, routing.Route.Compare)
	return kept
}
