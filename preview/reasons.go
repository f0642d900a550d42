package preview

import "plinth.dev/plinth/lb"

// RouterFailed is the reason where each router that could carry the packets is assumed to be dead.
const RouterFailed lb.Reason = "RouterFailed"
