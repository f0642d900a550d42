package probe

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"plinth.dev/plinth/doctor/machine"
)

// features notes the features that the kernel lacks.
func (r *reader) features() {
	if _, err := os.Stat("/proc/thread-self/net/if_inet6"); errors.Is(err, os.ErrNotExist) {
		r.lacks(machine.IPv6)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case err == nil:
		unix.Close(fd)
	case errors.Is(err, unix.EAFNOSUPPORT):
		r.lacks(machine.PacketSockets)
	case r.facts.Expected != nil:
		r.facts.Unread = append(r.facts.Unread, "who answers on links: want to be root, or to have the capability NET_RAW: "+err.Error())
	}
	if !hasMD5() {
		r.lacks(machine.TCPMD5)
	}
	if !hasModule(r.facts.Kernel, "vxlan") {
		r.lacks(machine.VXLAN)
	}
	slices.Sort(r.facts.Missing)
}

func (r *reader) lacks(feature string) { r.facts.Missing = append(r.facts.Missing, feature) }

// hasMD5 tries to give a socket a password, for an address of documentation.
func hasMD5() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // that is another trouble
	}
	defer unix.Close(fd)
	key := unix.TCPMD5Sig{Keylen: 1, Key: [unix.TCP_MD5SIG_MAXKEYLEN]byte{'x'}}
	key.Addr.Family = unix.AF_INET
	copy(key.Addr.Data[:], "\x00\x00\xc0\x00\x02\x01") // port 0 of 192.0.2.1
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &key) == nil
}

// hasModule tells whether a module is loaded, built in or there to be loaded. Where the folder of modules is not there, as in a container, it
// is taken to be.
func hasModule(release, name string) bool {
	if _, err := os.Stat(filepath.Join("/sys/module", name)); err == nil {
		return true
	}
	found := false
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		text, err := os.ReadFile(filepath.Join("/lib/modules", release, list))
		found = found || err != nil || strings.Contains(string(text), "/"+name+".ko")
	}
	return found
}

// clock asks the kernel whether its clock is kept.
func (r *reader) clock() {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if !r.unless("the clock", err) || state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0 {
		return
	}
	if r.hidden {
		r.facts.Unread = append(r.facts.Unread, "whether a program keeps the clock: want to be in the machine's PID namespace")
		return
	}
	r.facts.Unsynchronized = true
}
