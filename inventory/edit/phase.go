package edit

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
