package probe

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/doctor/machine"
)

// openSocket is a socket with the number by which its process has it.
type openSocket struct {
	machine.Socket
	inode string
}

// sockets reads those of the ports that checks look for, and whose they are.
func (r *reader) sockets() {
	ports := slices.Clone(machine.PortsRead)
	if r.facts.Expected != nil {
		for _, s := range r.facts.Expected.Sessions {
			ports = append(ports, s.Port)
		}
	}
	var all []openSocket
	var inodes []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table)
		if os.IsNotExist(err) { // without IPv6
			continue
		}
		if r.unless("sockets of "+table, err) {
			inodes = append(inodes, inodesIn(string(text))...)
			all = append(all, socketsIn(string(text), strings.ToUpper(table[:3]), ports)...)
		}
	}
	r.findPrograms(all, inodes)
	for _, s := range all {
		r.facts.Sockets = append(r.facts.Sockets, s.Socket)
	}
	slices.SortFunc(r.facts.Sockets, func(a, b machine.Socket) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), a.Local.Compare(b.Local), a.Remote.Compare(b.Remote), cmp.Compare(a.PID, b.PID))
	})
}

// The states of sockets that count (include/net/tcp_states.h of Linux).
const (
	established = "01"
	synSent     = "02"
	synReceived = "03"
	unconnected = "07" // of UDP: it takes what comes from anywhere
	listening   = "0A"
)

// socketsIn reads a table of proc(5), as far as sockets have one of the ports.
func socketsIn(text, protocol string, ports []uint16) (all []openSocket) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 10 {
			continue
		}
		local, ok := addrPortIn(fields[1])
		remote, ok2 := addrPortIn(fields[2])
		state := fields[3]
		if !ok || !ok2 {
			continue // its head
		}
		socket := openSocket{machine.Socket{Protocol: protocol, Local: local}, fields[9]}
		switch {
		case (state == listening || protocol == "UDP" && state == unconnected) && slices.Contains(ports, local.Port()):
		case protocol == "TCP" && state == established && (slices.Contains(ports, local.Port()) || slices.Contains(ports, remote.Port())):
			socket.Remote = remote
		default:
			continue
		}
		all = append(all, socket)
	}
	return all
}

// addrPortIn reads an address as proc(5) has it: words of 32 bits in the machine's order, and a port.
func addrPortIn(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	data, err := hex.DecodeString(address)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(data)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(data); i += 4 {
		binary.NativeEndian.PutUint32(data[i:], binary.BigEndian.Uint32(data[i:]))
	}
	a, ok := netip.AddrFromSlice(data)
	return netip.AddrPortFrom(a.Unmap(), uint16(number)), ok
}

// inodesIn are the numbers of all sockets of a table that processes have.
func inodesIn(text string) (all []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[9] == "0" {
			continue
		}
		if _, err := strconv.ParseUint(fields[9], 10, 64); err == nil { // else it is the table's head, whose columns are others
			all = append(all, fields[9])
		}
	}
	return all
}

// firstPIDs is the kernel's name of the PID namespace of the computer (PROC_PID_INIT_INO), in which all processes are seen.
const firstPIDs = "pid:[4026531836]"

// findPrograms finds out whose the sockets are, and whether some of all belong to processes that are not seen here. Of processes that it may not
// look at it notes so, where a socket is left over.
func (r *reader) findPrograms(all []openSocket, inodes []string) {
	links, err := filepath.Glob("/proc/[0-9]*/fd")
	r.unless("programs with sockets", err)
	owners := map[string]int{}
	for _, folder := range links {
		pid, err := strconv.Atoi(strings.Split(folder, "/")[2])
		if err != nil {
			continue
		}
		entries, _ := os.ReadDir(folder) // a process may have ended, or be another's
		for _, inode := range inodesOf(folder, entries) {
			owners[inode] = pid
		}
	}
	seen, _ := os.Readlink("/proc/self/ns/pid")
	r.hidden = seen != firstPIDs && slices.ContainsFunc(inodes, func(inode string) bool { return owners[inode] == 0 })
	for i, socket := range all {
		pid, known := owners[socket.inode]
		if known {
			all[i].PID, all[i].Program = pid, programOf(pid)
		}
		if all[i].Program == "" && socket.inode != "0" {
			r.facts.Unread = append(r.facts.Unread, fmt.Sprintf("which program has port %d of %s: want to be root, and in the machine's PID namespace", socket.Local.Port(), socket.Protocol))
		}
	}
	slices.Sort(r.facts.Unread)
	r.facts.Unread = slices.Compact(r.facts.Unread)
}

// inodesOf are the numbers of the sockets among the files of a process.
func inodesOf(folder string, files []fs.DirEntry) (all []string) {
	for _, file := range files {
		target, err := os.Readlink(filepath.Join(folder, file.Name()))
		if inode, is := strings.CutPrefix(target, "socket:["); is && err == nil {
			all = append(all, strings.TrimSuffix(inode, "]"))
		}
	}
	return all
}

// programOf is the name of a process's program; empty: it is not known.
func programOf(pid int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(target, " (deleted)"))
}
