package edit

// Phase is the progress of an edit.
type Phase string

// The phases of an edit.
const (
	Read       Phase = "read"       // nothing is decided: it is new, or it could not be told what it takes away
	Refused    Phase = "refused"    // it has an error, or takes away what it may not; what is in force stays
	OnTrial    Phase = "on trial"   // some machines try the terms that it gives to sessions
	Allowed    Phase = "allowed"    // it is to be stored
	Accepted   Phase = "accepted"   // it is stored, and in force
	Superseded Phase = "superseded" // another leader has taken up something else since
)

// transitions say which phase may follow another. An edit is decided on again, from Read, where something else than the edit
// changes what is decided: what was allowed, what is stored, or a report that could not be written.
var transitions = map[Phase][]Phase{
	Read:       {Read, Refused, OnTrial, Allowed},
	OnTrial:    {Read, Refused, OnTrial, Allowed},
	Allowed:    {Read, Accepted},
	Refused:    {Read},
	Accepted:   {Read, Superseded},
	Superseded: {},
}

// Decided reports whether the edit was taken up or refused, so that nothing is done until something else changes.
func (p Phase) Decided() bool { return p == Refused || p == Accepted || p == Superseded }
