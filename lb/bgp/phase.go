package bgp

// phase is a stage in the life of a session, which is in one at a time.
type phase string

// The phases. A server runs in connecting, unwatched, unconfirmed and established.
const (
	paused      phase = "paused"      // nothing runs: the session waits for terms, or for the end of a pause
	refused     phase = "refused"     // its terms cannot work: it waits for others
	connecting  phase = "connecting"  // a server connects
	unwatched   phase = "unwatched"   // the router has a session without a hold time: GoBGP waits for BFD
	unconfirmed phase = "unconfirmed" // GoBGP has a session, perhaps at this end only
	established phase = "established" // the session is up
	diagnosing  phase = "diagnosing"  // probes diagnose why it is down
)

func (p phase) hasServer() bool  { return p == connecting || p.hasSession() }
func (p phase) hasSession() bool { return p == unwatched || p == unconfirmed || p == established }

// occurrence is an event that takes a session from one phase to another.
type occurrence int

// The occurrences.
const (
	termsRefused   occurrence = iota // the session was set terms that cannot work
	termsAccepted                    // it was set terms that can
	serverStarted                    // a server runs, with all routes in it
	holdTimeMissed                   // the router's OPEN has no hold time, and GoBGP waits
	sessionStands                    // GoBGP has a session
	sessionDoubted                   // GoBGP has one right after another that fell silent
	doubtResolved                    // such a session lived for longer than the one before
	serverClosed                     // the session was lost, took too long to come up, or is to end
	diagnosisBegun                   // probes run
	diagnosisEnded                   // they have ended, or were cancelled
)

// transitions holds the next phase of each phase after each occurrence. An occurrence without an entry
// does not happen in that phase: a session is closed, and paused, before anything else begins.
var transitions = map[phase]map[occurrence]phase{
	paused:      {termsRefused: refused, serverStarted: connecting, diagnosisBegun: diagnosing},
	refused:     {termsRefused: refused, termsAccepted: paused},
	connecting:  {holdTimeMissed: unwatched, sessionStands: established, sessionDoubted: unconfirmed, serverClosed: paused},
	unwatched:   {sessionStands: established, sessionDoubted: unconfirmed, serverClosed: paused},
	unconfirmed: {doubtResolved: established, serverClosed: paused},
	established: {serverClosed: paused},
	diagnosing:  {diagnosisEnded: paused},
}

// move changes the phase as an occurrence demands, and reports whether transitions has an entry for it.
func (p *phase) move(o occurrence) bool {
	next, ok := transitions[*p][o]
	if ok {
		*p = next
	}
	return ok
}
