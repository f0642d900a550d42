package machine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor"
)

// Ports of Plinth's programs, unless they are told otherwise.
const (
	controllerPort = 10258
	agentPort      = 10268
	bfdPort        = 3784 // RFC 5881
	bfdHopsPort    = 4784 // RFC 5883
)

// PortsRead are the ports that checks look for, beside those of routers.
var PortsRead = []uint16{bgpPort, bfdPort, bfdHopsPort, controllerPort, agentPort}

// bgpPort is the port that routers and BGP speakers listen on (RFC 4271).
const bgpPort = 179

// needed are the ports that Plinth's programs listen on, each with what for.
func (f Facts) needed() map[string]string {
	all := map[string]string{"TCP 10258": "the controller, if that runs here", "TCP 10268": "the agent"}
	if f.Expected == nil || len(f.Expected.Links) > 0 {
		all["UDP 3784"] = "BFD" // between machines of a link
	}
	for _, s := range f.Expected.sessions() {
		switch {
		case s.BFD && s.Hops > 0:
			all["UDP 4784"] = "BFD over several hops"
		case s.BFD:
			all["UDP 3784"] = "BFD"
		}
	}
	return all
}

// isOwn tells whether a socket is Plinth's. Of one whose program is not known it may be.
func (s Socket) isOwn() bool { return s.Program == "" || strings.HasPrefix(s.Program, "plinth") }

// by names the program of a socket.
func (s Socket) by() string { return fmt.Sprintf("%s (process %d)", s.Program, s.PID) }

// inTheWay tells whether Plinth cannot listen on the port beside the socket: the controller and the agent listen on 127.0.0.1 alone, and BFD on
// the machine's addresses.
func (f Facts) inTheWay(s Socket) bool {
	at := s.Local.Addr()
	if port := s.Local.Port(); port == controllerPort || port == agentPort {
		return at.IsUnspecified() || at == netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return at.IsUnspecified() || f.Expected == nil || slices.Contains(f.Expected.Addresses, at.WithZone("")) ||
		slices.ContainsFunc(f.Expected.Sessions, func(with Session) bool {
			return with.Local == at.WithZone("") || at.IsLinkLocalUnicast() && with.Address.IsLinkLocalUnicast()
		})
}

// elsewhere returns the step by which the program of a socket lets go of its port.
func (s Socket) elsewhere() string {
	if s.Local.Port() == controllerPort && (s.Program == "k3s" || s.Program == "rke2") {
		return "its own cloud controller manager has the port: have " + s.Program + " do without it as docs/guides/distributions.md#" + s.Program + " has it, with all that belongs to that"
	}
	return "have " + s.by() + " listen on another port, or stop it where it is not needed any more"
}

func portHeld(f Facts) (out []doctor.Finding) {
	needed := f.needed()
	told := map[string]bool{}
	for _, socket := range f.Sockets {
		port := fmt.Sprintf("%s %d", socket.Protocol, socket.Local.Port())
		if socket.isOwn() || !socket.listens() || needed[port] == "" || told[port] || !f.inTheWay(socket) {
			continue
		}
		told[port] = true // of a program that listens in both families, once
		out = append(out, found([]doctor.Mend{say(socket.elsewhere())}, "%s listens on port %s, which is for %s", socket.by(), port, needed[port]))
	}
	return out
}

// sessionWith is the session of the inventory that a connection stands in place of: another address of the machine may have one of its own.
func (f Facts) sessionWith(socket Socket) (Session, bool) {
	if socket.listens() {
		return Session{}, false
	}
	sessions := f.Expected.sessions()
	i := slices.IndexFunc(sessions, func(with Session) bool {
		same := with.Local == socket.Local.Addr() || with.Address.IsLinkLocalUnicast()
		return same && with.Address.WithZone("") == socket.Remote.Addr().WithZone("") && (socket.Remote.Port() == with.Port || socket.Local.Port() == bgpPort)
	})
	if i < 0 {
		return Session{}, false
	}
	return sessions[i], true
}

const otherSpeakers = "docs/guides/other-bgp-speakers.md"

func sessionHeldByOther(f Facts) (out []doctor.Finding) {
	told := map[netip.Addr]bool{}
	for _, socket := range f.Sockets {
		with, is := f.sessionWith(socket)
		if !is || socket.isOwn() || told[with.Address] {
			continue
		}
		told[with.Address] = true
		out = append(out, found([]doctor.Mend{say("have one of the two speak with the router, or take its session out of the configuration of " + socket.Program + ": " + otherSpeakers)},
			"%s has a connection with router %s, %s", socket.by(), with.Router, with.Address))
	}
	return out
}
