package bgp

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/wake"
)

const (
	diagnosisTime = 15 * time.Second // for all probes together
	// firstProbe is long enough for the kernel to find out that no host has the
	// router's address, which takes it three seconds.
	firstProbe = 3500 * time.Millisecond
	nextProbe  = 2500 * time.Millisecond
	// probePause separates two probes of a router that closed the first: some routers refuse
	// further connections for a while.
	probePause = 1500 * time.Millisecond
)

// symptoms record how far an attempt of GoBGP's got before it hung.
type symptoms struct {
	openReceived bool // the router sent its OPEN, and then nothing
	hung         bool // the router accepted the connection, and then sent nothing
}

// diagnose finds out by probes why a session does not come up: first as GoBGP connects,
// then, where that meets silence, with one thing changed at a time. The change that helps is
// the cause. One end with TTL security or a password and the other without
// shows nowhere else: packets just get no answer. It returns CauseNone when nothing
// is wrong any more, or nothing is found.
//
// The attempt before counts too, where the router still takes connections: one that did not receive the end of it may
// refuse every probe because of it.
func diagnose(ctx context.Context, terms terms, before symptoms) diagnosis {
	own := socketOf(terms)
	first := probeTwice(ctx, terms, own, firstProbe)
	switch {
	case ctx.Err() != nil:
		return diagnosis{}
	case first.refused != "" && first.isOf(terms.Session.RouterASN):
		return diagnosis{OpenRefused, first.refused}
	case first.reached == answered:
		return diagnosis{}
	}
	found := explain(terms, first)
	if found.cause != NoAnswer && found.cause != ClosedByRouter {
		return found
	}
	for _, v := range variants(terms, own) {
		if got := probeTwice(ctx, terms, v.socket, nextProbe); got.reached > first.reached || got.notification != nil {
			return v.diagnosis
		}
	}
	if byAttempt := explainAttempt(terms, before); byAttempt.cause != CauseNone && first.reached >= connected {
		return byAttempt
	}
	if found.cause == ClosedByRouter {
		return found
	}
	return diagnoseSilence(ctx, terms, first)
}

// probeTwice probes, and after a pause once more, in the time that is left, if the router
// closed the connection without a NOTIFICATION.
func probeTwice(ctx context.Context, terms terms, with socket, within time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, within+probePause)
	defer cancel()
	first := probe(ctx, terms, with, within)
	if first.notification != nil || first.reached < connected || !closed(first.err) {
		return first
	}
	if !wake.After(ctx, probePause) {
		return first
	}
	return probe(ctx, terms, with, within)
}

// explain reads the outcome of a probe that has a cause by itself.
func explain(terms terms, got outcome) diagnosis {
	session := terms.Session
	switch {
	case !got.isOf(session.RouterASN):
		return diagnosis{ASNMismatch, fmt.Sprintf("the router is in AS %d, the inventory says %v", got.asn, session.RouterASN)}
	case got.notification != nil:
		return causeOfReceived(*got.notification, terms)
	case got.err == nil, timeout(got.err):
		return diagnosis{cause: NoAnswer}
	}
	return explainError(session, got)
}

// explainError reads the error of a probe.
func explainError(session inventory.Session, got outcome) diagnosis {
	switch {
	case errors.Is(got.err, syscall.ECONNREFUSED):
		return diagnosis{Refused, fmt.Sprintf("nothing listens on port %d of the router", session.Port)}
	case errors.Is(got.err, syscall.EADDRNOTAVAIL):
		return diagnosis{Unreachable, fmt.Sprintf("this machine has no address %v", session.Local)}
	case errors.Is(got.err, syscall.EHOSTUNREACH), errors.Is(got.err, syscall.ENETUNREACH):
		return diagnosis{Unreachable, fmt.Sprintf("there is no way to the router: %v; a router that is further than one hop away needs multihop", root(got.err))}
	case got.reached < connected:
		return diagnosis{Unreachable, got.err.Error()}
	case closed(got.err):
		return diagnosis{ClosedByRouter, "the router accepts the connection and closes it without a word: it may not know this machine as a neighbour, not take its OPEN, not take it back so soon, or have a session with another speaker of its address"}
	}
	return diagnosis{MalformedMessage, "what answers at the router is not BGP: " + got.err.Error()}
}

// explainAttempt reads how far the attempt before got, where probes found nothing that helps.
func explainAttempt(t terms, before symptoms) diagnosis {
	switch {
	case before.openReceived && !t.Session.TTLSecurity && !t.Session.IBGP():
		return diagnosis{TTLMismatch, "the router talks, but does not hear this machine: it may have TTL security on, and this machine has not"}
	case before.hung && t.Session.TTLSecurity:
		return diagnosis{TTLMismatch, "the router takes the connection, but nothing that it says arrives: this machine has TTL security on, and the router may not"}
	}
	return diagnosis{}
}

// variant is a probe with one thing changed, and the diagnosis if it gets further.
type variant struct {
	socket
	diagnosis
}

// variants returns the probes that change one thing each.
func variants(t terms, own socket) (all []variant) {
	changed := own
	if t.Session.TTLSecurity {
		changed.minTTL = 0
		all = append(all, variant{changed, diagnosis{TTLMismatch, "this machine has TTL security on, and the router does not send with a TTL of 255"}})
	} else {
		changed.ttl = 255
		all = append(all, variant{changed, diagnosis{TTLMismatch, "the router has TTL security on, and this machine has not"}})
	}
	if changed = own; own.password != "" {
		changed.password = ""
		all = append(all, variant{changed, diagnosis{PasswordMismatch, "this machine has a password for the router, and the router has none for this machine"}})
	}
	return all
}

// diagnoseSilence explains a silence that no variant ended.
func diagnoseSilence(ctx context.Context, terms terms, first outcome) diagnosis {
	if first.reached >= connected {
		return diagnosis{NoAnswer, "the router accepts the connection, but does not answer the OPEN"}
	}
	switch alive := answersUDP(ctx, terms); {
	case alive && terms.Password != "":
		return diagnosis{PasswordMismatch, "the router is there, but drops what this machine sends: it may have another password"}
	case alive:
		return diagnosis{NoAnswer, fmt.Sprintf("the router is there, but drops what comes to port %d: a filter, or it wants a password", terms.Session.Port)}
	}
	return diagnosis{NoAnswer, "the router answers nothing at all: it is off, cut off, or drops what this machine sends"}
}

// root returns the innermost error, which is the shortest.
func root(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}
