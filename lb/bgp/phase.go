package bgp

// phase is what a session is doing. It does exactly one thing at a time.
type phase string

// The phases. A server runs in connecting, unwatched, unconfirmed and established.
const (
	paused      phase = "paused"      // nothing runs: it waits for terms, or until it may try again
	refused     phase = "refused"     // its terms cannot work: it waits for others
	connecting  phase = "connecting"  // a server tries to connect
	unwatched   phase = "unwatched"   // the router has a session without a hold time: BFD is to come up before GoBGP may go on
	unconfirmed phase = "unconfirmed" // GoBGP has a session, perhaps at this end only
	established phase = "established" // the session is up
	diagnosing  phase = "diagnosing"  // probes look for the cause of its being down
)

func (p phase) hasServer() bool  { return p == connecting || p.hasSession() }
func (p phase) hasSession() bool { return p == unwatched || p == unconfirmed || p == established }

// occurrence is what takes a session from one phase to another.
type occurrence int

const (
	termsRefused   occurrence = iota // the terms that it was set cannot work
	termsAccepted                    // they can
	serverStarted                    // with all routes in it
	holdTimeMissed                   // the router's OPEN has none, and GoBGP waits
	sessionStands                    // GoBGP has a session
	sessionDoubted                   // GoBGP has one right after another that fell silent
	doubtOutlived                    // such a session lived for longer than the one before
	serverClosed                     // the session was lost, took too long to come up, or is not to go on
	diagnosisBegun
	diagnosisEnded // or was given up
)

// transitions say where each occurrence leads. What has no place here does not happen: a
// session is closed, and paused, before anything else begins.
var transitions = map[phase]map[occurrence]phase{
	paused:      {termsRefused: refused, serverStarted: connecting, diagnosisBegun: diagnosing},
	refused:     {termsRefused: refused, termsAccepted: paused},
	connecting:  {holdTimeMissed: unwatched, sessionStands: established, sessionDoubted: unconfirmed, serverClosed: paused},
	unwatched:   {sessionStands: established, sessionDoubted: unconfirmed, serverClosed: paused},
	unconfirmed: {doubtOutlived: established, serverClosed: paused},
	established: {serverClosed: paused},
	diagnosing:  {diagnosisEnded: paused},
}

// move takes the session where an occurrence leads, and reports whether it leads anywhere
// from its phase.
func (s *session) move(o occurrence) bool {
	next, ok := transitions[s.phase][o]
	if ok {
		s.phase = next
	}
	return ok
}
