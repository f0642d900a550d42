package netns

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// roomForUDP is how many bytes a socket of the testbed keeps for a program that gets no processor. The kernel doubles
// it, which is room for some 10,000 small packets. By default it keeps 275, those of less than half a second.
const roomForUDP = 4 << 20

// MakeRoom gives a UDP socket room for what its program reads late; without root as much as the kernel allows everybody.
func MakeRoom(socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	control := raw.Control(func(fd uintptr) {
		for forced, plain := range map[int]int{unix.SO_RCVBUFFORCE: unix.SO_RCVBUF, unix.SO_SNDBUFFORCE: unix.SO_SNDBUF} {
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, forced, roomForUDP) != nil {
				err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, plain, roomForUDP))
			}
		}
	})
	return errors.Join(control, err)
}

// UDPDropped is how many UDP packets the kernel has dropped so far that were for sockets of a namespace, since their
// programs had not read what came before.
func UDPDropped(name string) (dropped int, err error) {
	var snmp, snmp6 []byte
	err = Do(name, func() error {
		var err4, err6 error
		snmp, err4 = os.ReadFile("/proc/thread-self/net/snmp")
		snmp6, err6 = os.ReadFile("/proc/thread-self/net/snmp6")
		return errors.Join(err4, err6)
	})
	if err != nil {
		return 0, err
	}
	v4, err4 := udpErrors4(string(snmp))
	v6, err6 := udpErrors6(string(snmp6))
	if err := errors.Join(err4, err6); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", name, err)
	}
	return v4 + v6, nil
}

// udpErrors4 reads /proc/net/snmp: of each protocol a line with the names of its counters, and one with their values.
func udpErrors4(text string) (int, error) {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "RcvbufErrors" && i < len(fields) {
				return strconv.Atoi(fields[i])
			}
		}
	}
	return 0, fmt.Errorf("no RcvbufErrors of UDP in %q", text)
}

// udpErrors6 reads /proc/net/snmp6: a name and a value in each line.
func udpErrors6(text string) (int, error) {
	_, rest, ok := strings.Cut(text, "Udp6RcvbufErrors")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("no Udp6RcvbufErrors in %q", text)
	}
	return strconv.Atoi(fields[0])
}
