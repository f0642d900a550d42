package onlink

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAnInterfaceWorksOnceItIsOperational(t *testing.T) {
	for _, one := range []struct {
		what  string
		flags uint32
		want  bool
	}{
		{"set down", 0, false},
		{"no cable", unix.IFF_UP, false},
		{"the cable was just plugged in", unix.IFF_UP | unix.IFF_LOWER_UP, false},
		{"the cable was just pulled", unix.IFF_UP | unix.IFF_RUNNING, false},
		{"it works", unix.IFF_UP | unix.IFF_LOWER_UP | unix.IFF_RUNNING, true},
	} {
		body := make([]byte, unix.SizeofIfInfomsg)
		binary.NativeEndian.PutUint16(body[2:], unix.ARPHRD_ETHER)
		binary.NativeEndian.PutUint32(body[4:], 7)
		binary.NativeEndian.PutUint32(body[8:], one.flags|unix.IFF_BROADCAST|unix.IFF_MULTICAST)
		f, ok := linkOf(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}, Data: body})
		if !ok || f.index != 7 || !f.ethernet || f.carrier != one.want {
			t.Errorf("%s: %+v, %v", one.what, f, ok)
		}
	}
}
