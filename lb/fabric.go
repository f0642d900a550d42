package lb

import "regexp"

// What an agent says in the message of [FabricReady] besides its sessions and routes, and what follows there. Links, rules and
// trials have texts of their own.
const (
	SaysSettings = "kernel settings: "                                   // those that keep packets from pods
	SaysPassword = "the new password did not bring up the session with " // routers
)

// noSession is how the message of [FabricReady] begins where no session is up.
var noSession = regexp.MustCompile(`^routes \d+/\d+, sessions 0/[1-9]\d*($|[:;])`)

// NoSessionIsUp reports whether the message of a condition [FabricReady] says that the machine
// wants sessions and none of them is up.
func NoSessionIsUp(message string) bool { return noSession.MatchString(message) }
