package doctor

import (
	"fmt"
	"strings"
	"testing"

	"plinth.dev/plinth/golden"
)

//go:generate go test . -run TestReferencePage -update

const referencePage = "../docs/reference/doctor.md"

const introduction = `# What plinth doctor finds

<!-- generated from the sources by make generate -->

[` + "`plinth doctor`" + `](plinth.md#doctor) looks for these in a cluster, whether Plinth is installed there or not, in this order: what comes first keeps the most from working. With each finding it prints the
commands that mend it, for the objects, machines and distribution at hand; ` + "`plinth explain NAME`" + ` prints a row of this table. It changes nothing.
What a machine alone knows, [` + "`plinth doctor machine`" + `](doctor-machine.md) finds there.

What it has no right to read it names as *Not known*, and ends with exit code 2 rather than 0. It gets and lists Nodes, Namespaces, DaemonSets, Deployments, Pods and ConfigMaps of ` + "`kube-system`" + `, Leases, Services,
ServiceCIDRs, and of MetalLB, FRR-K8s, Cilium and Calico the kinds that name pools and routers. It never asks for a Secret.

| finding | what it means |
|---|---|
`

const afterwards = `
## A bundle for whoever helps

` + "`plinth doctor --save-bundle bundle.yaml`" + ` writes what was read, and ` + "`plinth doctor --bundle bundle.yaml`" + ` finds in it, anywhere and without the cluster, what was found there. The file is one YAML document, to be read before it
is sent: names and addresses of Nodes, workloads, Services, pools and routers, versions, the state of leases, and the inventory without labels, taints and reasons. Of containers it has the names of images
without registry and tag, ports, and a few flags; of kube-proxy's and CNIs' ConfigMaps the settings that a check reads. It has no Secrets, no environment, no annotations, and none of the passwords of balancers and speakers.
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
