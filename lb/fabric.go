package lb

import "regexp"

// noSession is how the message of [FabricReady] begins where no session is up.
var noSession = regexp.MustCompile(`^routes \d+/\d+, sessions 0/[1-9]\d*($|[:;])`)

// NoSessionIsUp reports whether the message of a condition [FabricReady] says that the machine
// wants sessions and none of them is up.
func NoSessionIsUp(message string) bool { return noSession.MatchString(message) }
