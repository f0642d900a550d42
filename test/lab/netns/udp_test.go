package netns

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatASocketHasNoRoomForIsCounted(t *testing.T) {
	const name = "plt-netns-udp"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(Delete(name)) // of a run that was killed
	must(Add(name))
	defer Delete(name)
	d := NewDialer(name)
	defer d.Close()
	dropped := func() int {
		n, err := UDPDropped(name)
		must(err)
		return n
	}
	for _, address := range []string{"127.0.0.1:7000", "[::1]:7000"} {
		unread, err := ListenPacket(name, address)
		must(err)
		sender, err := d.DialContext(t.Context(), "udp", address)
		must(err)
		flood := func() {
			for range 1000 {
				_, err := sender.Write(make([]byte, 1024))
				must(err)
			}
		}
		must(MakeRoom(unread.(*net.UDPConn)))
		before := dropped()
		flood()
		if n := dropped() - before; n != 0 {
			t.Errorf("%s: %d packets were dropped though there is room for them", address, n)
		}
		must(unread.(*net.UDPConn).SetReadBuffer(1024))
		flood()
		if n := dropped() - before; n != 1000 {
			t.Errorf("%s: %d packets of 1000 were dropped without room", address, n)
		}
		must(unread.Close())
		must(sender.Close())
	}
}

func TestASocketHasRoomBothWays(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := MakeRoom(c.(*net.UDPConn)); err != nil {
		t.Fatal(err)
	}
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
			if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option); err != nil || n < roomForUDP {
				t.Errorf("option %d: %d bytes, %v", option, n, err)
			}
		}
	})
}
