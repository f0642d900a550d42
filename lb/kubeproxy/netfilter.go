package kubeproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// netfilter asks the kernel's packet filter, one thing at a time. It needs CAP_NET_ADMIN.
type netfilter struct {
	mu     sync.Mutex
	socket *nl.SocketHandle // nil: to be opened
}

// timeout bounds one answer of the kernel.
var timeout = unix.Timeval{Sec: 1}

// family returns netfilter's number for the family of an address.
func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// get asks for one object, and returns its attributes; false: there is none such.
func (f *netfilter) get(subsystem, message int, family uint8, attributes ...*nl.RtAttr) (object []byte, found bool, err error) {
	answers, found, err := f.send(subsystem, message, family, attributes)
	if err != nil || !found {
		return nil, false, err
	}
	if len(answers) != 1 || len(answers[0]) < nl.SizeofNfgenmsg {
		return nil, false, fmt.Errorf("netfilter: %d answers", len(answers))
	}
	return answers[0][nl.SizeofNfgenmsg:], true, nil
}

// send sends one message, and returns what the kernel answers; false: there is no such object.
func (f *netfilter) send(subsystem, message int, family uint8, attributes []*nl.RtAttr) (answers [][]byte, found bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.socket == nil {
		if err := f.open(); err != nil {
			return nil, false, err
		}
	}
	flags := 0
	if subsystem == unix.NFNL_SUBSYS_CTNETLINK {
		flags = unix.NLM_F_ACK // its answer says that more follows
	}
	req := nl.NewNetlinkRequest(subsystem<<8|message, flags)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: f.socket}
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	for _, a := range attributes {
		req.AddData(a)
	}
	answers, err = req.Execute(unix.NETLINK_NETFILTER, 0)
	var no syscall.Errno
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, false, nil
	case err == nil:
		return answers, true, nil
	case errors.As(err, &no) && no != unix.EAGAIN:
		return nil, false, fmt.Errorf("netfilter: %w", err) // the kernel's answer
	}
	f.close() // an answer may be left in it
	return nil, false, fmt.Errorf("netfilter: %w", err)
}

func (f *netfilter) open() error {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER) // to nothing: it opens a socket
	if err != nil {
		return fmt.Errorf("netfilter: %w", err)
	}
	f.socket = &nl.SocketHandle{Socket: s}
	if err := errors.Join(s.SetSendTimeout(&timeout), s.SetReceiveTimeout(&timeout)); err != nil {
		f.close()
		return fmt.Errorf("netfilter: %w", err)
	}
	return nil
}

func (f *netfilter) close() {
	f.socket.Close()
	f.socket = nil
}

// text is an attribute that bears a name.
func text(kind int, name string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(name)) }

// nested is an attribute that bears others.
func nested(kind int, inner ...*nl.RtAttr) *nl.RtAttr {
	a := nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil)
	for _, x := range inner {
		a.AddChild(x)
	}
	return a
}

// inside returns the value of a nested attribute, by the kinds on the path to it; nil: there is none.
func inside(object []byte, path ...uint16) []byte {
	for _, kind := range path {
		all, err := nl.ParseRouteAttr(object)
		if err != nil {
			return nil
		}
		object = nil
		for _, a := range all {
			if a.Attr.Type&^unix.NLA_F_NESTED == kind {
				object = a.Value
			}
		}
	}
	return object
}
