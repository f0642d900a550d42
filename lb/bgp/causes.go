package bgp

// Cause is the reason why a session is down. It is a metric label and has a row in
// docs/reference/reasons.md.
type Cause string

// The causes.
const (
	CauseNone        Cause = ""                 // the session is up
	Connecting       Cause = "Connecting"       // the first attempts have not ended yet
	Misconfigured    Cause = "Misconfigured"    // its terms cannot work
	PasswordMissing  Cause = "PasswordMissing"  // the Secret has no password for the session
	Unreachable      Cause = "Unreachable"      // this machine has no route to the router's address
	NoAnswer         Cause = "NoAnswer"         // packets get no answer
	Refused          Cause = "Refused"          // nothing listens on the router's port
	ClosedByRouter   Cause = "ClosedByRouter"   // the router closes the connection without a NOTIFICATION
	TTLMismatch      Cause = "TTLMismatch"      // one end has TTL security, the other has none
	PasswordMismatch Cause = "PasswordMismatch" // the ends have different passwords, or one has none
	ASNMismatch      Cause = "ASNMismatch"      // one end is in another AS than the other expects
	HoldTimerExpired Cause = "HoldTimerExpired" // one end received nothing for the hold time
	PrefixLimit      Cause = "PrefixLimit"      // one end sent more prefixes than the other accepts
	RouterShutdown   Cause = "RouterShutdown"   // an operator shut the session down on the router
	RouterRefused    Cause = "RouterRefused"    // the router sent another NOTIFICATION
	OpenRefused      Cause = "OpenRefused"      // this machine refuses the router's OPEN
	MalformedMessage Cause = "MalformedMessage" // the router sent something that is not BGP
	PathDown         Cause = "PathDown"         // BFD lost the router
	Flapping         Cause = "Flapping"         // the session was lost repeatedly, and is held down
	SessionTaken     Cause = "SessionTaken"     // another speaker has the session, from the same address
)
