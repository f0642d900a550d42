package edit

import (
	"fmt"
	"slices"
)

// Phase is how far an edit has come.
type Phase string

// The phases of an edit.
const (
	Read       Phase = "read"       // nothing is decided: it is new, or it could not be told what it takes away
	Refused    Phase = "refused"    // it has an error, or takes away what it may not; what is in force stays
	OnTrial    Phase = "on trial"   // some machines try the terms that it gives to sessions
	Allowed    Phase = "allowed"    // it is to be stored
	Accepted   Phase = "accepted"   // it is stored, and in force
	Superseded Phase = "superseded" // another edit has taken its place, whatever became of it
)

// transitions say which phase may follow another. An edit is decided on again, from Read, where something else than the edit
// changes what is decided: what was allowed, what is stored, or a report that could not be written.
var transitions = map[Phase][]Phase{
	Read:       {Read, Refused, OnTrial, Allowed, Superseded},
	OnTrial:    {Read, Refused, OnTrial, Allowed, Superseded},
	Allowed:    {Read, Accepted, Superseded},
	Refused:    {Read, Superseded},
	Accepted:   {Read, Superseded},
	Superseded: {},
}

// Decided reports whether the edit was taken up or refused, so that nothing is done until something else changes.
func (s Phase) Decided() bool { return s == Refused || s == Accepted }

// Life is how far one edit has come, and what was decided on it last.
type Life struct {
	Phase   Phase
	Verdict Verdict // of Read: none
}

// NewLife is that of an edit that was just found.
func NewLife() Life { return Life{Phase: Read} }

// Decide takes the edit where a verdict leads.
func (l *Life) Decide(v Verdict) error {
	if err := l.move(v.Phase); err != nil {
		return err
	}
	l.Verdict = v
	return nil
}

// Accept notes that the edit is stored, and in force.
func (l *Life) Accept() error { return l.move(Accepted) }

// Reconsider has the edit be decided on again.
func (l *Life) Reconsider() error { return l.Decide(Verdict{Phase: Read}) }

// Supersede notes that another edit has taken its place.
func (l *Life) Supersede() error { return l.move(Superseded) }

func (l *Life) move(to Phase) error {
	if !slices.Contains(transitions[l.Phase], to) {
		return fmt.Errorf("an edit that is %s cannot be %s", l.Phase, to)
	}
	l.Phase = to
	return nil
}
