package edit

import (
	"fmt"
	"slices"
)

// Life is the phase of one edit, and the last verdict on it.
type Life struct {
	Phase   Phase
	Verdict Verdict // of Read: none
}

// NewLife returns the life of an edit that was just found.
func NewLife() Life { return Life{Phase: Read} }

// Decide takes the edit where a verdict leads.
func (l *Life) Decide(verdict Verdict) error {
	if err := l.move(verdict.Phase); err != nil {
		return err
	}
	if verdict.Phase != Allowed {
		verdict.Next = nil // it is not needed any more, and it is large
	}
	l.Verdict = verdict
	return nil
}

// Accept notes that the edit is stored, and in force.
func (l *Life) Accept() error {
	l.Verdict.Next = nil
	return l.move(Accepted)
}

// Reconsider has the edit be decided on again.
func (l *Life) Reconsider() error { return l.Decide(Verdict{Phase: Read}) }

// Supersede notes that what another leader took up is in force in its place.
func (l *Life) Supersede() error { return l.move(Superseded) }

func (l *Life) move(to Phase) error {
	if !slices.Contains(transitions[l.Phase], to) {
		return fmt.Errorf("an edit that is %s cannot be %s", l.Phase, to)
	}
	l.Phase = to
	return nil
}
