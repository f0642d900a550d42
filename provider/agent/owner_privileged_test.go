//go:build privileged

package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWhatAnotherNodeOrMachineLeftIsNotAnnounced: a machine that joins under another name,
// and a disk that was copied.
func TestWhatAnotherNodeOrMachineLeftIsNotAnnounced(t *testing.T) {
	ask, client, proxyURL, _ := machineWithRouter(t)
	dir := t.TempDir()
	all := []string{"10.244.1.0/24", "203.0.113.5/32", "fd00:244:0:1::/64"}
	here := func(o *Options) { o.Identity = MachineIdentity{MachineID: "installation-1", SystemUUID: "hardware-1"} }
	before := start(t, client, siteWith(t, "active"), dir, proxyURL, here)
	learned(t, ask, all...)
	before.stop()
	sh(t, "ip route flush proto 114")

	away := fake.NewClientset()
	away.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("away") })
	for name, change := range map[string]func(*Options){
		"another name":                    func(o *Options) { o.NodeName = "w9" },
		"another installation":            func(o *Options) { o.Identity.MachineID = "installation-2" },
		"a copied disk in other hardware": func(o *Options) { o.Identity.SystemUUID = "hardware-2" },
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
