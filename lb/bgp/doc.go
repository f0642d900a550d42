// Package bgp makes an embedded GoBGP speaker announce exactly the advertisements
// it is given, to exactly the routers it is given.
//
// A [Speaker] is set whole: [Speaker.Set] compares what is wanted with what is
// announced, and carries out the difference. Each session has a BGP server of its own,
// so that no route of one router can reach another, and so that whatever becomes
// of one session leaves the others alone. A server's routes are complete before
// its router is added, because End-of-RIB (RFC 4724, section 2) goes out as soon
// as the session is up, and a router that kept our routes drops those that come
// after it.
//
// A session is in exactly one phase: transitions (phase.go) says which there are and what leads
// from one to the next. A server runs in four of them. One goroutine owns all of a
// session; what GoBGP, BFD and diagnoses have to tell comes to it by channels.
//
// A process leaves in one of two ways. [Speaker.Leave] closes the connections
// without a NOTIFICATION, and routers in graceful restart keep the routes for the process
// that follows. [Speaker.Stop] withdraws everything and says why.
package bgp
