package document

import (
	"net/netip"
	"time"
)

// rawOnLink says what machines do that answer for VIPs on their own subnet.
type rawOnLink struct {
	mapped

	// The BFD profile that the machines of a subnet watch each other with. Default: 100ms, 3 times.
	BFD scalar[string] `key:"bfd" form:"name"`
	// Hosts of the subnet that are no machines and always there. A machine that hears less than half of the others goes on only while one of these answers. Default: the routers in the subnet; where there are none, the machine's default gateway. Where that is no host of the subnet either, half of the machines or less fall silent, but for the half with the first machine of the inventory: of two machines the first goes on alone, the second does not.
	Witness list[scalar[netip.Addr]] `key:"witness" merge:"once"`
	// How often the owner of a VIP tells the subnet that it has it, so that switches remember: 1s to 1h. Default: 60s.
	AnnounceEvery scalar[time.Duration] `key:"announceEvery" form:"1s..1h"`
}
