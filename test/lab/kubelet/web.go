package kubelet

import (
	"net"
	"net/http"
)

// Handler answers every request as a pod of the lab does.
func Handler(who Answer) http.Handler { return answer(who) }

// Echo sends every datagram back, as a pod of the lab does, until c is closed.
func Echo(c net.PacketConn) { echo(c) }
