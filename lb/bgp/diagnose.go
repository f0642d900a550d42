package bgp

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	diagnosisTime = 15 * time.Second // for all probes together
	// firstProbe is long enough for the kernel to find out that nobody has the
	// router's address, which takes it three seconds.
	firstProbe = 3500 * time.Millisecond
	nextProbe  = 2500 * time.Millisecond
	// probePause is how long a router that just closed a connection is left alone: some
	// refuse further ones for a while.
	probePause = 1500 * time.Millisecond
)

// symptoms are how far an attempt of GoBGP's got before it stuck.
type symptoms struct {
	openReceived bool // the router sent its OPEN, and then nothing
	hung         bool // the router took the connection, and then nothing came
}

// diagnose finds out why a session does not come up, by trying: first as GoBGP does,
// then, where that meets silence, with one thing changed at a time. What helps is
// what was wrong. One end with TTL security or a password and the other without
// shows nowhere else: packets just get no answer. It returns CauseNone when nothing
// is wrong any more, or nothing can be said.
//
// The attempt before counts too: a router that did not receive the end of it may refuse
// every probe because of it.
func diagnose(ctx context.Context, t terms, before symptoms) (Cause, string) {
	own := socketOf(t)
	first := try(ctx, t, own, firstProbe)
	if ctx.Err() != nil {
		return CauseNone, ""
	}
	if first.refused != "" && first.isOf(t.Session.RouterASN) {
		return OpenRefused, first.refused
	}
	if first.reached == answered {
		return CauseNone, ""
	}
	c, detail := explain(t, first)
	if c != NoAnswer && c != ClosedByRouter {
		return c, detail
	}
	for _, v := range variants(t, own) {
		if r := try(ctx, t, v.socket, nextProbe); r.reached > first.reached || r.notification != nil {
			return v.cause, v.detail
		}
	}
	switch {
	case before.openReceived && !t.Session.TTLSecurity && !t.Session.IBGP():
		return TTLMismatch, "the router talks, but does not hear this machine: it may have TTL security on, and this machine has not"
	case before.hung && t.Session.TTLSecurity:
		return TTLMismatch, "the router takes the connection, but nothing that it says arrives: this machine has TTL security on, and the router may not"
	case c == ClosedByRouter:
		return c, detail
	}
	return diagnoseSilence(ctx, t, first)
}

// try probes, and after a pause once more, in the time that is left, if the router
// closed without a word.
func try(ctx context.Context, t terms, o socket, within time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, within+probePause)
	defer cancel()
	r := probe(ctx, t, o, within)
	if r.notification != nil || r.reached < connected || !closed(r.err) {
		return r
	}
	select {
	case <-time.After(probePause):
	case <-ctx.Done():
		return r
	}
	return probe(ctx, t, o, within)
}

// explain reads the outcome of a probe that says something by itself.
func explain(t terms, r outcome) (Cause, string) {
	port := t.Session.Port
	switch {
	case !r.isOf(t.Session.RouterASN):
		return ASNMismatch, fmt.Sprintf("the router is in AS %d, the inventory says %v", r.asn, t.Session.RouterASN)
	case r.notification != nil:
		return causeOfReceived(*r.notification, t)
	case errors.Is(r.err, syscall.ECONNREFUSED):
		return Refused, fmt.Sprintf("nothing listens on port %d of the router", port)
	case errors.Is(r.err, syscall.EADDRNOTAVAIL):
		return Unreachable, fmt.Sprintf("this machine has no address %v", t.Session.Local)
	case errors.Is(r.err, syscall.EHOSTUNREACH), errors.Is(r.err, syscall.ENETUNREACH):
		return Unreachable, fmt.Sprintf("there is no way to the router: %v; a router that is further than one hop away needs multihop", root(r.err))
	case r.reached >= connected && closed(r.err):
		return ClosedByRouter, "the router accepts the connection and closes it without a word: it may not know this machine as a neighbour, not take its OPEN, not take it back so soon, or have a session with another speaker of its address"
	case r.reached >= connected && r.err != nil && !timeout(r.err):
		return MalformedMessage, "what answers at the router is not BGP: " + r.err.Error()
	case r.err != nil && !timeout(r.err):
		return Unreachable, r.err.Error()
	}
	return NoAnswer, ""
}

// variant is a probe with one thing changed, and what is wrong if it gets further.
type variant struct {
	socket
	cause  Cause
	detail string
}

func variants(t terms, own socket) []variant {
	var vs []variant
	if t.Session.TTLSecurity {
		v := own
		v.minTTL = 0
		vs = append(vs, variant{v, TTLMismatch, "this machine has TTL security on, and the router does not send with a TTL of 255"})
	} else {
		v := own
		v.ttl = 255
		vs = append(vs, variant{v, TTLMismatch, "the router has TTL security on, and this machine has not"})
	}
	if own.password != "" {
		v := own
		v.password = ""
		vs = append(vs, variant{v, PasswordMismatch, "this machine has a password for the router, and the router has none for this machine"})
	}
	return vs
}

// diagnoseSilence explains what is left: no variant got further.
func diagnoseSilence(ctx context.Context, t terms, first outcome) (Cause, string) {
	if first.reached >= connected {
		return NoAnswer, "the router accepts the connection, but does not answer the OPEN"
	}
	switch alive := answersUDP(ctx, t); {
	case alive && t.Password != "":
		return PasswordMismatch, "the router is there, but drops what this machine sends: it may have another password"
	case alive:
		return NoAnswer, fmt.Sprintf("the router is there, but drops what comes to port %d: a filter, or it wants a password", t.Session.Port)
	}
	return NoAnswer, "the router answers nothing at all: it is off, cut off, or drops what this machine sends"
}

// root is the innermost error, which says it in the fewest words.
func root(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}
