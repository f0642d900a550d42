// Package bgp runs an embedded GoBGP speaker that announces exactly the advertisements
// it is given, to exactly the routers it is given.
//
// A [Speaker] is set whole: [Speaker.Set] compares the desired sessions and routes with those that run,
// and carries out the difference. A change passes through these parts, each the owner of its state:
//
//   - guard (guard.go) withholds routes that no session may announce.
//   - session (session.go, and session_events.go for what happens to it) is a state machine: it is in
//     one phase, and transitions (phase.go) holds the phases that follow. One goroutine owns
//     all of a session; calls, events of GoBGP and BFD, and results of diagnoses reach it by channels
//     (mailbox.go).
//   - instance (server.go) is a GoBGP server. Each session has one of its own, so that no route of one
//     router can reach another, and a fault of one session leaves the others alone. A server
//     has all its routes before its router is added, because End-of-RIB (RFC 4724, section 2) is sent
//     as soon as the session is up, and a router that kept our routes drops those that come after it.
//   - adjRIBOut holds the routes of the session, agreement what its router accepts of them.
//   - bfdMonitor watches its path, diagnoser explains why it is down, and retry damps its attempts to
//     connect.
//
// A process leaves in one of two ways: by [Speaker.Leave] for a process that follows, or by [Speaker.Stop].
package bgp
