//go:build privileged

package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/agent/disk"
)

// TestWhatAnotherNodeOrMachineLeftIsNotAnnounced: a machine that joins under another name,
// and a disk that was copied.
func TestWhatAnotherNodeOrMachineLeftIsNotAnnounced(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir := t.TempDir()
	all := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}
	here := func(o *Options) {
		o.Identity = disk.MachineIdentity{MachineID: "installation-1", SystemUUID: inventory.ReportedUUID("hardware-1")}
	}
	before := start(t, client, siteWith(t, "active"), dir, proxyURL, here)
	learned(t, ask, all...)
	before.stop()
	sh(t, "ip route flush proto 114")

	away := fake.NewClientset()
	away.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	for name, change := range map[string]func(*Options){
		"another name":                    func(o *Options) { o.NodeName = "w9" },
		"another installation":            func(o *Options) { o.Identity.MachineID = "installation-2" },
		"a copied disk in other hardware": func(o *Options) { o.Identity.SystemUUID = inventory.ReportedUUID("hardware-2") },
	} {
		t.Run(name, func(t *testing.T) {
			other := start(t, away, nil, dir, proxyURL, func(o *Options) { here(o); change(o) })
			never(t, "it goes by what another one left", func() (bool, string) {
				s := other.show(t)
				return s.Ready || len(s.Sessions) > 0, fmt.Sprintf("%+v", s)
			})
			if got := sh(t, "ip route show proto 114"); strings.TrimSpace(got) != "" {
				t.Errorf("the kernel has %s", got)
			}
			other.stop()
		})
	}
	again := start(t, away, nil, dir, proxyURL, here)
	learned(t, ask, all...)
	again.stop()
}

// withID is the site in which w1 has an id.
func withID(t *testing.T, id string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(strings.NewReplacer("STATE", "active", "{name: w1,", "{name: w1, id: "+id+",").Replace(site))})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

// TestTheNodeOfAMachineThatWasReplacedIsNotBegunOn: the new machine's kubelet has taken the
// old machine's Node. An agent that runs goes on, whatever becomes of its machine's ID, and
// follows what changes besides.
func TestTheNodeOfAMachineThatWasReplacedIsNotBegunOn(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	all := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}
	dir := t.TempDir()
	runs := start(t, client, siteWith(t, "active"), dir, proxyURL, nil)
	learned(t, ask, all...)
	runs.sources.Accept(t.Context(), source.Followed{Inventory: withID(t, "SN-2")}, nil)
	if _, err := client.NetworkingV1().IPAddresses().Create(t.Context(), aClaim("203.0.113.8", "prod", "web", "uid-1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all = append(all, "203.0.113.8/32")
	learned(t, ask, all...)
	runs.stop()
	again := start(t, client, withID(t, "SN-2"), dir, proxyURL, nil)
	learned(t, ask, all...)
	again.stop()
	sh(t, "ip route flush proto 114")

	begins := start(t, client, withID(t, "SN-2"), t.TempDir(), proxyURL, nil)
	eventually(t, "the agent says what it waits for", func() (bool, string) {
		s := begins.show(t)
		return strings.Contains(s.WaitingFor, "run: kubectl delete node w1"), fmt.Sprintf("%+v", s)
	})
	never(t, "it begins", func() (bool, string) {
		s := begins.show(t)
		return s.Ready || len(s.Sessions) > 0, fmt.Sprintf("%+v", s)
	})
	if got := sh(t, "ip route show proto 114"); strings.TrimSpace(got) != "" {
		t.Errorf("the kernel has %s", got)
	}
}
