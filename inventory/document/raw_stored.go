package document

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/inventory"
)

// rawStoredLink is a link as the slice of a rack has it that shares it with others. People
// write no such thing, so no reference has it.
type rawStoredLink struct {
	mapped

	Subnet        scalar[netip.Prefix]       `key:"subnet"`
	Interval      scalar[time.Duration]      `key:"interval" form:"10ms..1m"`
	Multiplier    scalar[int]                `key:"multiplier" form:"1..255"`
	Witness       list[scalar[netip.Addr]]   `key:"witness"`
	AnnounceEvery scalar[time.Duration]      `key:"announceEvery" form:"1s..1h"`
	Machines      list[rawStoredLinkMachine] `key:"machines"`
}

// rawStoredLinkMachine is a machine on such a link.
type rawStoredLinkMachine struct {
	mapped

	Name    scalar[string]          `key:"name" form:"node"`
	Rack    scalar[string]          `key:"rack" form:"name"`
	Zone    scalar[string]          `key:"zone" form:"label"`
	Address scalar[netip.Addr]      `key:"address"`
	State   scalar[inventory.State] `key:"state"`
}
