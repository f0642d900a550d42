package machine

import (
	"fmt"
	"slices"
	"strings"

	"plinth.dev/plinth/doctor"
)

// check is one thing that is looked for.
type check struct {
	kind  doctor.Kind
	means string // a row of docs/reference/doctor-machine.md
	find  func(Facts) []doctor.Finding
}

// checks are all of them, in the order of their findings: what comes first keeps the most from working.
var checks = []check{
	{"ForwardingOff", "The kernel does not forward packets, or not those that come in by an interface of the machine's addresses: none reaches a pod.", forwardingOff},
	{"ReversePathStrict", "`rp_filter` drops what comes in by another interface than an answer would leave by, as it does where VIPs are announced to several routers.", reversePathStrict},
	{"AdvertisementsIgnored", "A machine that forwards ignores router advertisements unless `accept_ra` is 2, and its default route, which was learned from one, runs out.", advertisementsIgnored},
	{"HashByAddress", "Routes over several routers choose one by the addresses alone: all connections between two hosts take the same.", hashByAddress},
	{"IPv6Disabled", "IPv6 is off by a sysctl, and the machine or a pool has an address of IPv6.", ipv6Disabled},
	{"AnnouncementsDropped", "The kernel drops gratuitous ARP or unsolicited neighbour advertisements: when a VIP moves, this machine sends to the one that had it, until its cache forgets.", announcementsDropped},
	{"NeighbourTableSmall", "The kernel keeps fewer neighbours than the machine will have: machines of its subnets, and pods.", neighbourTableSmall},
	{"ConntrackNearlyFull", "The table of tracked connections is nine tenths full. When it is full, the kernel drops new connections.", conntrackNearlyFull},
	{"PortHeld", "Another program listens on a port that Plinth needs: 10258 of the controller, 10268 of the agent, or 3784 and 4784 of BFD.", portHeld},
	{"SessionHeldByOther", "Another BGP speaker of the machine has a connection with a router of the inventory: a router has one session with an address.", sessionHeldByOther},
	{"SpeakerListens", "Another BGP speaker of the machine listens on port 179. What it announces, Plinth knows nothing of.", speakerListens},
}

// Examine returns what stands in the way, what keeps the most from working first.
func Examine(f Facts) []doctor.Finding {
	out := []doctor.Finding{}
	for _, check := range checks {
		found := check.find(f)
		for i := range found {
			found[i].Kind, found[i].Object = check.kind, f.object()
		}
		slices.SortStableFunc(found, func(a, b doctor.Finding) int { return strings.Compare(a.Message, b.Message) })
		out = append(out, found...)
	}
	return out
}

// found is a finding; of what kind and of which machine, Examine says.
func found(mend []doctor.Mend, format string, args ...any) doctor.Finding {
	return doctor.Finding{Message: fmt.Sprintf(format, args...), Mend: mend}
}

// run is a command for sh, on the machine, as root.
func run(words ...string) doctor.Mend { return doctor.Mend{Run: strings.Join(words, " ")} }

// say is what to do by hand.
func say(words ...string) doctor.Mend { return doctor.Mend{Say: strings.Join(words, " ")} }
