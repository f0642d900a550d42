//go:build privileged && timing

package mesh

import (
	"fmt"
	"testing"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/uptime"
)

// Sessions outlive the address that they are from, and the interface: nobody opens them again.
func TestAMachineIsUpAgainOnceItsAddressIsBack(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	ns, addr := all[2].ns, address(2)
	for _, story := range []struct{ what, gone, back string }{
		{"an address", fmt.Sprintf("ip -n %s addr del %v/24 dev eth0", ns, addr), fmt.Sprintf("ip -n %s addr add %v/24 dev eth0", ns, addr)},
		{
			"an interface", fmt.Sprintf("ip -n %s link del eth0", ns),
			fmt.Sprintf("ip -n %[1]s link add v2 type veth peer name eth0 netns %[2]s && ip -n %[1]s link set v2 master br0 up && ip -n %[2]s addr add %[3]v/24 dev eth0 && ip -n %[2]s link set eth0 up", ns[:len(ns)-2], ns, addr),
		},
		{
			"another interface", fmt.Sprintf("ip -n %s addr del %v/24 dev eth0", ns, addr),
			fmt.Sprintf("ip -n %[1]s link add br1 type bridge && ip -n %[1]s link set eth0 master br1 && ip -n %[1]s link set br1 up && ip -n %[1]s addr add %[2]v/24 dev br1", ns, addr),
		},
	} {
		gone := uptime.Now()
		run(t, story.gone)
		for _, m := range all[:2] {
			m.when(gone, all[2], advertise.Down)
			all[2].when(gone, m, advertise.Down)
		}
		back := uptime.Now()
		run(t, story.back)
		for _, m := range all[:2] {
			t.Logf("%s is back: up after %v", story.what, m.when(back, all[2], advertise.Up)-back)
			all[2].when(back, m, advertise.Up)
		}
	}
}

// Packets of BFD are small, and a link whose MTU changes loses none.
func TestAnMTUThatChangesLosesNobody(t *testing.T) {
	all := lan(t, 3, nil)
	allUp(all, 0)
	changed := uptime.Now()
	for _, mtu := range []int{9000, 576, 1500} {
		run(t, fmt.Sprintf("ip -n %s link set eth0 mtu %d", all[2].ns, mtu))
	}
	run(t, "ip -n "+all[1].ns+" link set eth0 down")
	all[2].when(changed, all[1], advertise.Down) // and by then it would know of the other, too
	for _, m := range []*machine{all[0], all[2]} {
		other := all[0]
		if m == other {
			other = all[2]
		}
		if seen := m.seen(changed, other); seen != "" && seen != "up" {
			t.Errorf("%s saw %s", m.ns, seen)
		}
	}
}
