package machine

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/golden"
)

//go:generate go test . -run TestReferencePage -update

const referencePage = "../../docs/reference/doctor-machine.md"

const introduction = `# What plinth doctor machine finds

<!-- generated from the sources by make generate -->

[` + "`plinth doctor machine`" + `](plinth.md#doctor-machine) looks for these on the machine that it runs on, as root, whether Plinth is there or not, in this order: what comes first keeps the most from working. It sees what
[` + "`plinth doctor`" + `](doctor.md) can learn from agents alone, or not at all. With each finding it prints what mends it: commands to run there as root, and in words what no command should do, such as to stop another program. ` + "`plinth explain NAME`" + `
prints a row of this table. It changes nothing.

What belongs to an inventory it looks at with ` + "`--inventory`" + ` alone: a file, a folder, or ` + "`cluster`" + ` for what is in force there. What it could not look at it names as *Not known*, and ends with exit code 2 rather than 0: without
root that is whose sockets are, and who answers on a link. In a pod it needs the host's network and PID namespaces.

Hosts are asked at most ten times a second on an interface: of IPv4 as nobody, so that no cache learns anything, and of IPv6 as the machine. A pool with more than 64 addresses on the link is asked for 64 of them, spread over it,
which takes 13 seconds where nobody answers, and all pools of a link for 256; a *Note* says so, and changes no exit code. A router is tried by a connection where nothing of the machine has one with it, and no BGP speaker runs that may be about to: else that is *Not known*.

| finding | what it means |
|---|---|
`

const afterwards = `
Settings of the kernel are those that [the agent finds](agent.md), by the same code, and some more; the agent names ` + "`rp_filter`" + ` wherever it is strict. The commands change them at once, and write each into a file of its own for the next boot,
` + "`/etc/sysctl.d/99-zz-plinth-SETTING.conf`" + `, which is read after others there; which files set it, too, is said beside. In a container, as a debug pod is one, there are words in place of commands: they are for the host.

` + "`--save-bundle w1.yaml`" + ` writes what was read, and ` + "`--bundle w1.yaml`" + ` finds in it, on any computer, what was found there: names of interfaces, addresses, settings, the names of programs with ports of Plinth's, and of the inventory the
addresses, pools and sessions of that machine, without passwords.
`

func reference() string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, c := range checks {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.kind, c.means)
	}
	b.WriteString(afterwards)
	return b.String()
}

func TestReferencePage(t *testing.T) { golden.Hold(t, referencePage, []byte(reference())) }
