// Package onlink answers ARP and neighbour discovery for exactly the addresses that it is
// given, on exactly the links that it is given.
//
// A [Responder] is set whole ([Responder.Set]): for each link the addresses to claim, those
// that others claim, and the other machines. It answers requests for its claims with the MAC
// of the interface that has the machine's own address in the subnet, announces what is new,
// and reports in [Responder.State] what it hears: the machine, or the stranger, that claims an
// address, and the reason why a link cannot work. [Responder.Ask] and [Responder.Probe] ask the wire.
//
// A link has one packet socket, for ARP (RFC 826) or for ICMPv6, with a filter in the kernel
// that lets through what the link has to hear, so that a noisy LAN wakes nobody. The kernel
// knows nothing of the addresses: when the process dies or stops, nobody answers for them.
// What a process that was stopped finds in its queue it does not answer (Options.AnswersUntil).
//
// The link's mutex covers a look at the claims together with the write that follows from it,
// and Set takes it: once Set has returned, nothing is sent for an address that is gone. Which
// interface a link is on follows the kernel's notifications of links and addresses.
//
// frame.go and filter.go are pure: bytes to values and values to bytes.
package onlink
