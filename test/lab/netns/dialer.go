package netns

import (
	"context"
	"net"
)

// Dialer opens connections inside a namespace. Its threads stay there and are
// used again, so that a thousand connections a second cost no thousand threads.
type Dialer struct {
	name string
	idle chan chan func()
}

// NewDialer returns a dialer for the namespace. It keeps at most 64 threads.
func NewDialer(name string) *Dialer {
	return &Dialer{name: name, idle: make(chan chan func(), 64)}
}

// DialContext connects like net.Dialer's, from inside the namespace.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	worker, err := d.worker()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	worker <- func() {
		defer close(done)
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
	}
	<-done
	select {
	case d.idle <- worker:
	default:
		close(worker)
	}
	return conn, err
}

// Close lets the idle threads go.
func (d *Dialer) Close() {
	for {
		select {
		case worker := <-d.idle:
			close(worker)
		default:
			return
		}
	}
}

func (d *Dialer) worker() (chan func(), error) {
	select {
	case worker := <-d.idle:
		return worker, nil
	default:
	}
	worker, entered := make(chan func()), make(chan error)
	onThread(func() {
		err := enter(d.name)
		entered <- err
		if err != nil {
			return
		}
		for f := range worker {
			f()
		}
	})
	return worker, <-entered
}
