// Package bfd runs sessions of Bidirectional Forwarding Detection (RFC 5880) over UDP, over
// one hop (RFC 5881) or several (RFC 5883), with routers or between machines.
//
// The settings of a session are its [Terms]: two addresses and the timers. [Listeners.Open] opens
// its sockets, [Session.Begin] has it send. What it tells is a [Status], which says where it
// stands and how often the path was lost, and [Session.Changed], which receives a value when
// that is another one. Nobody who is slow to look holds up the packets, and no loss is missed
// by looking late: losses are counted.
//
// A [Session] is asynchronous and active, without authentication and without echo. It obeys a
// peer that asks for demand mode and does not ask for it itself. One goroutine owns its detector, which is the
// state machine of the RFC without a clock and without a socket.
//
// A process that another one follows closes its sessions with a time for which the peer is to
// wait: the peer is asked for that by a poll, and the process that follows goes on with the
// session, by the same discriminator. Otherwise a session ends as AdminDown, which says
// nothing about the path.
//
// A path that is lost again and again is not to be used at once each time that it comes back:
// [Damping] determines the time to wait. It is for the user of a session (RFC 5882, section
// 3.2), which knows the cost of a loss.
//
// The test of each section of the RFCs is listed in docs/reference/bfd.md.
package bfd
