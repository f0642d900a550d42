//go:build privileged

package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory/document"
)

// role is the variable that tells this program, run once more in a namespace, what to be there.
const role = "PLINTH_TEST_ROLE"

func TestMain(m *testing.M) {
	words := strings.Fields(os.Getenv(role))
	if len(words) == 0 {
		os.Exit(m.Run())
	}
	if err := play(words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// held are the sockets of a role: one that nothing refers to is closed when memory is next collected.
var held []io.Closer

// play is what a role does. Those that hold a socket say so, and wait to be killed.
func play(words []string) error {
	switch words[0] {
	case "examine":
		return examine(words[1])
	case "tcp", "md5":
		for _, at := range words[1:] {
			config, network := net.ListenConfig{}, "tcp"
			config.SetMultipathTCP(false) // its sockets take no signatures
			if words[0] == "md5" {
				config.Control, network = signed, "tcp4"
			}
			socket, err := config.Listen(context.Background(), network, at)
			if err != nil {
				return err
			}
			held = append(held, socket)
		}
	case "udp":
		socket, err := net.ListenPacket("udp", words[1])
		if err != nil {
			return err
		}
		held = append(held, socket)
	case "advertise":
		if err := advertise(words[1]); err != nil {
			return err
		}
	case "dial":
		socket, err := net.Dial("tcp", words[1])
		if err != nil {
			return err
		}
		held = append(held, socket)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour) // longer than any test; select {} is a deadlock, which ends a program, where it is built without cgo
	return nil
}

// advertise sends a router advertisement with a lifetime of half an hour (RFC 4861, section 4.2).
func advertise(device string) error {
	c, err := net.ListenPacket("ip6:ipv6-icmp", "::")
	if err != nil {
		return err
	}
	raw, err := c.(*net.IPConn).SyscallConn()
	if err != nil {
		return err
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255) }); err != nil || set != nil {
		return errors.Join(err, set)
	}
	_, err = c.WriteTo([]byte{134, 0, 0, 0, 64, 0, 1800 >> 8, 1800 & 0xff, 0, 0, 0, 0, 0, 0, 0, 0}, &net.IPAddr{IP: net.ParseIP("ff02::1"), Zone: device})
	return err
}

// signed has a socket take what is signed alone, from the machine.
func signed(_, _ string, c syscall.RawConn) error {
	key := unix.TCPMD5Sig{Keylen: 1, Key: [unix.TCP_MD5SIG_MAXKEYLEN]byte{'x'}}
	key.Addr.Family = unix.AF_INET
	from := netip.MustParseAddr("192.168.1.11").As4()
	copy(key.Addr.Data[2:], from[:])
	var set error
	if err := c.Control(func(fd uintptr) { set = unix.SetsockoptTCPMD5Sig(int(fd), unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key) }); err != nil {
		return err
	}
	return set
}

// examine prints what was read as a bundle, in less time than a link is to be asked. What the computer that runs the test is, and whether its clock is kept, does not count.
func examine(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	inv, problems := document.Parse(document.Document{Source: file, Data: text})
	if err := problems.Err(); err != nil {
		return err
	}
	facts, err := (&reader{every: 20 * time.Millisecond}).read(context.Background(), inv, "")
	if err != nil {
		return err
	}
	facts.Unsynchronized, facts.Container, facts.SysctlFiles = false, false, nil
	return printBundle(facts)
}

func printBundle(facts machine.Facts) error {
	text, err := facts.Bundle()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}
