package lab

import (
	"fmt"
	"path/filepath"
	"regexp"
)

// The hosts that every lab has besides its machines and routers.
const (
	clientHost  = "client"  // outside, behind the routers
	controlHost = "control" // etcd and the Kubernetes control plane
	switchHost  = "switch"  // the bridges that stand for cables: one a rack, one for management
)

// ClientHost is outside, behind the routers.
const ClientHost = clientHost

// ControlHost has the control plane: whoever is there reaches the API server, and the
// addresses of no rack.
const ControlHost = controlHost

// runFolder holds what must be found again by name alone: the records of all
// labs on this machine and their sockets.
const runFolder = "/run/plinth-lab"

// otherLabs holds the folders of labs that are not the default one.
const otherLabs = "/var/tmp/plinth-lab"

// DefaultName is the lab whose namespaces are called plinth-<host>.
const DefaultName = "default"

var labName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

func checkName(name string) error {
	if !labName.MatchString(name) {
		return fmt.Errorf("lab name %q: want at most twenty of a-z, 0-9 and -, a letter first", name)
	}
	return nil
}

// prefix is what the namespaces of a lab begin with. No prefix begins another
// one: a lab's name has no dot.
func prefix(name string) string {
	if name == DefaultName {
		return "plinth-"
	}
	return "plinth." + name + "."
}

// Namespace returns the network namespace of a machine, a router, or "client".
func (l *Lab) Namespace(host string) string { return prefix(l.record.Name) + host }

func runDir(name string) string { return filepath.Join(runFolder, name) }

// hostLink is the one interface that a lab puts into the namespace of the host.
func hostLink(slot int) string { return fmt.Sprintf("plinth-lab%d", slot) }
