package disk

import (
	"fmt"
	"os"
	"strings"

	"plinth.dev/plinth/inventory"
)

// MachineIdentity tells one machine from another, whatever their Nodes are called. What
// is empty is not known.
type MachineIdentity struct {
	MachineID  string         `json:",omitempty"` // of the installation: /etc/machine-id
	SystemUUID inventory.UUID `json:",omitzero"`  // of the hardware, or of the virtual machine: a copied disk does not take it along
}

const (
	machineIDFile  = "/etc/machine-id"
	systemUUIDFile = "/sys/class/dmi/id/product_uuid"
)

// ThisMachine returns the identity of the machine that the process runs on. In a container
// that takes the host's /etc/machine-id as a mount.
func ThisMachine() MachineIdentity {
	return MachineIdentity{MachineID: idIn(machineIDFile), SystemUUID: inventory.ReportedUUID(idIn(systemUUIDFile))}
}

// idIn is the ID in a file. An image that was never booted has the word uninitialized for
// it (machine-id(5)).
func idIn(file string) string {
	b, err := os.ReadFile(file)
	id := strings.ToLower(strings.TrimSpace(string(b)))
	if err != nil || id == "uninitialized" {
		return ""
	}
	return id
}

// Owner is the owner of a file of the state directory: a Node and its machine. An older agent wrote none.
type Owner struct {
	Node    string `json:",omitempty"`
	Machine MachineIdentity
}

// conflict returns the difference that tells two owners apart; empty: they may be the same. A machine that
// joins under another name keeps its IDs, and a copied disk the name. The IDs are kept
// out of the log, as machine-id(5) asks.
func (o Owner) conflict(self Owner) string {
	differ := func(was, is string) bool { return was != "" && is != "" && was != is }
	switch {
	case differ(o.Node, self.Node):
		return fmt.Sprintf("it is of node %s, and this is node %s", o.Node, self.Node)
	case differ(o.Machine.MachineID, self.Machine.MachineID):
		return "it is of a machine with another machine-id"
	case differ(o.Machine.SystemUUID.String(), self.Machine.SystemUUID.String()):
		return "it is of a machine with another system UUID"
	}
	return ""
}
