package bgp

import "context"

// mailbox carries calls and events to the goroutine that owns a session.
type mailbox struct {
	calls  chan func()
	events chan event
	last   func()        // called last by the goroutine; set before quit is closed
	quit   chan struct{} // closed: the goroutine is to end
	ended  chan struct{} // closed: it has ended
}

// newMailbox returns a mailbox without messages.
func newMailbox() mailbox {
	return mailbox{calls: make(chan func()), events: make(chan event), quit: make(chan struct{}), ended: make(chan struct{})}
}

// do has the owning goroutine call f.
func (m *mailbox) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	select {
	case m.calls <- func() { result <- f() }:
	case <-m.ended:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send delivers an event to the owning goroutine, unless that has ended.
func (m *mailbox) send(e event) {
	select {
	case m.events <- e:
	case <-m.ended:
	}
}

// end has the owning goroutine call last, and end, even after an error and whatever becomes of ctx:
// nothing may go on announcing unseen. ctx bounds how long end waits for the result.
func (m *mailbox) end(ctx context.Context, last func() error) error {
	result := make(chan error, 1)
	m.last = func() { result <- last() }
	close(m.quit)
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
