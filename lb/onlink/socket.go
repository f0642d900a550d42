package onlink

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opener opens a socket as [unix.Socket] does. Tests open them in other network namespaces.
type opener func(domain, typ, proto int) (int, error)

const (
	maxFrame = 2048
	// receiveBuffer holds what arrives while the process does not run: about a thousand frames.
	receiveBuffer = 1 << 20
	controlClass  = 7 // TC_PRIO_CONTROL: answers are not queued behind bulk traffic
)

// packetSocket sends and receives the frames of one EtherType on one interface.
type packetSocket struct {
	file    *os.File
	program program
}

// listen opens a packet socket that hears nothing yet but what the program lets through:
// it is bound to the interface only when it has it.
func listen(open opener, index int, etherType uint16, program program) (*packetSocket, error) {
	fd, err := open(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	socket := &packetSocket{file: os.NewFile(uintptr(fd), "packet")}
	err = socket.setFilter(program)
	if err == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, controlClass)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherType<<8 | etherType>>8, Ifindex: index})
	}
	if err != nil {
		socket.file.Close()
		return nil, fmt.Errorf("packet socket on interface %d: %w", index, err)
	}
	return socket, nil
}

// setFilter replaces the filter in one step, unless it is the same.
func (s *packetSocket) setFilter(program program) error {
	if slices.Equal(program, s.program) {
		return nil
	}
	err := control(s.file, func(fd int) error { return attach(fd, program) })
	if err == nil {
		s.program = program
	}
	return err
}

// control makes a system call on the descriptor of a file.
func control(file *os.File, call func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func attach(fd int, p program) error {
	prog := &unix.SockFprog{Len: uint16(len(p)), Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(p)))}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, prog)
}

// isOn reports whether the socket is still bound to an interface: one that went, even for a
// moment and with the same index, has unbound it.
func (s *packetSocket) isOn(index int) bool {
	bound := false
	err := control(s.file, func(fd int) error {
		sa, err := unix.Getsockname(fd)
		at, ok := sa.(*unix.SockaddrLinklayer)
		bound = ok && at.Ifindex == index
		return err
	})
	return err == nil && bound
}

// send writes a frame without waiting: what the interface cannot take now is lost.
func (s *packetSocket) send(frame []byte) error {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Write(func(fd uintptr) bool {
		_, sent = unix.Write(int(fd), frame)
		return true
	})
	if err == nil {
		err = sent
	}
	return err
}
