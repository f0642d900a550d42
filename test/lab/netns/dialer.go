package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
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
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.dial(ctx, new(net.Dialer), network, address)
}

// DialFrom is DialContext over TCP from a port, which others may have connections from, but
// nobody may listen at: that is EADDRINUSE. Where it had no answer, the error is also what a
// router said about the SYN, if one did.
func (d *Dialer) DialFrom(ctx context.Context, port int, address string) (net.Conn, error) {
	socket := -1 // stays open for as long as it may be asked
	shared := func(_, _ string, c syscall.RawConn) error {
		var err error
		control := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			if err == nil {
				socket, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
			}
		})
		return errors.Join(control, err)
	}
	conn, err := d.dial(ctx, &net.Dialer{LocalAddr: &net.TCPAddr{Port: port}, Control: shared}, "tcp", address)
	if socket < 0 {
		return conn, err
	}
	defer unix.Close(socket)
	if err != nil {
		// An ICMP error that comes while connect(2) still sends the SYN, as it does from a router
		// on the same machine, ends nothing: the kernel keeps it for who asks (tcp_v4_err).
		if said, _ := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ERROR); said != 0 {
			err = fmt.Errorf("%w: %w", err, syscall.Errno(said))
		}
	}
	return conn, err
}

func (d *Dialer) dial(ctx context.Context, from *net.Dialer, network, address string) (conn net.Conn, err error) {
	worker, err := d.worker()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	worker <- func() {
		defer close(done)
		conn, err = from.DialContext(ctx, network, address)
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
