package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	receiveBuffer = 8 << 20         // bytes; errors of a whole batch must fit, and bursts of events
	answerTimeout = 5 * time.Second // the kernel answers at once, or never
	dumpAttempts  = 10
)

// errInterrupted means that the table changed while it was read: the result may
// lack routes that are there.
var errInterrupted = errors.New("the routing table changed while it was being read")

// conn is one rtnetlink socket.
type conn struct {
	fd   int
	port uint32 // what the kernel marks notifications with that we caused
	seq  uint32
	in   []byte
}

// dial opens a socket in the network namespace of the calling thread, subscribed
// to the given groups.
func dial(groups ...uint32) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	c := &conn{fd: fd, in: make([]byte, 1<<16)}
	if err := c.prepare(groups); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("preparing a netlink socket: %w", err)
	}
	return c, nil
}

func (c *conn) prepare(groups []uint32) error {
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		// Without CAP_NET_ADMIN in the initial user namespace: what the host allows.
		_ = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	for _, option := range []int{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK} {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, option, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// Only now: binding forgets the groups that were joined before.
	for _, g := range groups {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(g)); err != nil {
			return err
		}
	}
	name, err := unix.Getsockname(c.fd)
	if err != nil {
		return err
	}
	c.port = name.(*unix.SockaddrNetlink).Pid
	return nil
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// nextSeq returns n sequence numbers, the first of them.
func (c *conn) nextSeq(n int) uint32 {
	first := c.seq + 1
	c.seq += uint32(n)
	return first
}

func (c *conn) send(b []byte) error {
	return unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// receive calls each with every message of one datagram.
func (c *conn) receive(each func(h unix.NlMsghdr, body []byte) error) error {
	size, _, err := unix.Recvfrom(c.fd, c.in, 0)
	for errors.Is(err, unix.EINTR) {
		size, _, err = unix.Recvfrom(c.fd, c.in, 0)
	}
	if err != nil {
		return err
	}
	for data := c.in[:size]; len(data) >= unix.SizeofNlMsghdr; {
		head := header(data)
		if int(head.Len) < unix.SizeofNlMsghdr || int(head.Len) > len(data) {
			return fmt.Errorf("netlink message of %d bytes in a datagram of %d", head.Len, len(data))
		}
		if err := each(head, data[unix.SizeofNlMsghdr:head.Len]); err != nil {
			return err
		}
		data = data[min(len(data), align(int(head.Len))):]
	}
	return nil
}

// request sends a batch and reports the errors that came back, by the index of the
// message that caused each. The last message asks for an acknowledgement; those
// before it answer only if they fail. rtnetlink works in the sender's own
// thread, so that all answers are there when the last one is.
func (c *conn) request(batch []byte, first uint32, count int) (map[int]error, error) {
	if err := c.patience(answerTimeout); err != nil {
		return nil, err
	}
	if err := c.send(batch); err != nil {
		return nil, fmt.Errorf("sending to the kernel: %w", err)
	}
	failed := map[int]error{}
	for done := false; !done; {
		err := c.receive(func(h unix.NlMsghdr, body []byte) error {
			i := int(h.Seq - first)
			if h.Type != unix.NLMSG_ERROR || i < 0 || i >= count {
				return nil // of an earlier batch that we gave up on
			}
			if err := answer(h, body); err != nil {
				failed[i] = err
			}
			done = done || i == count-1
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("hearing from the kernel: %w", err)
		}
	}
	return failed, nil
}

// dump sends a request and calls each with every answer until the last.
func (c *conn) dump(req []byte, seq uint32, each func(h unix.NlMsghdr, body []byte)) error {
	if err := c.patience(answerTimeout); err != nil {
		return err
	}
	if err := c.send(req); err != nil {
		return fmt.Errorf("sending to the kernel: %w", err)
	}
	interrupted := false
	for done := false; !done; {
		err := c.receive(func(header unix.NlMsghdr, body []byte) error {
			if header.Seq != seq {
				return nil
			}
			interrupted = interrupted || header.Flags&unix.NLM_F_DUMP_INTR != 0
			switch header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				done = true
				return answer(header, body)
			}
			each(header, body)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading from the kernel: %w", err)
		}
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

func (c *conn) patience(d time.Duration) error {
	return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, new(unix.NsecToTimeval(d.Nanoseconds())))
}

// Refused is the kernel's "no" to one message.
type Refused struct {
	Errno unix.Errno
	Text  string // the kernel's own explanation; often empty
}

func (e *Refused) Error() string {
	if e.Text == "" {
		return e.Errno.Error()
	}
	return e.Errno.Error() + ": " + e.Text
}

func (e *Refused) Unwrap() error { return e.Errno }

// answer decodes an acknowledgement or the end of a dump.
func answer(header unix.NlMsghdr, body []byte) error {
	if len(body) < 4 {
		return nil
	}
	code := int32(binary.NativeEndian.Uint32(body))
	if code == 0 {
		return nil
	}
	refused := &Refused{Errno: unix.Errno(-code)}
	if header.Flags&unix.NLM_F_ACK_TLVS == 0 {
		return refused
	}
	skip := 4
	if header.Type == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr // the header of our message; NETLINK_CAP_ACK leaves the rest out
	}
	if len(body) > skip {
		for kind, value := range attributes(body[skip:]) {
			if kind == unix.NLMSGERR_ATTR_MSG {
				refused.Text = unix.ByteSliceToString(value)
			}
		}
	}
	return refused
}
