package onlink

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab"
)

const (
	connections = 50
	// away is how long an upgrade takes from the end of the old program to the start of the new one.
	away = 3 * time.Second
	// after is for how long it is watched what the new program does.
	after = 20 * time.Second
)

// ends has the program of the machine with the most VIPs end and be started again: VIPs that
// another machine answered for at any time ("moved-SIGTERM", "moved-SIGKILL"), connections that broke
// ("broken-"), packets that were lost ("lost-").
func (t *turn) ends() {
	for name, signal := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		owners := t.settled()
		machine, vip := busiest(owners)
		moved, held, lost := t.endAndStart(machine, vip, owners, signal)
		t.tell("%s of the program on %s, which owned %d of %d VIPs, started again %s later: %d moved; %s; a phone: %s",
			name, machine, countOf(owners, machine), len(owners), away, moved, held, lost)
		t.measured.Add("moved-"+name, float64(moved))
		t.measured.Add("broken-"+name, float64(held.Broken))
		t.measured.Add("lost-"+name, float64(lost.Lost))
	}
}

func countOf(owners map[netip.Addr]string, machine string) (n int) {
	for _, owner := range owners {
		if owner == machine {
			n++
		}
	}
	return n
}

// busiest is the machine with the most VIPs, and the first of these.
func busiest(owners map[netip.Addr]string) (machine string, vip netip.Addr) {
	for _, owner := range owners {
		if n, most := countOf(owners, owner), countOf(owners, machine); n > most || n == most && owner < machine {
			machine = owner
		}
	}
	for v, owner := range owners {
		if owner == machine && (!vip.IsValid() || v.Less(vip)) {
			vip = v
		}
	}
	return machine, vip
}

func (t *turn) endAndStart(machine string, vip netip.Addr, owners map[netip.Addr]string, signal syscall.Signal) (moved int, held lab.HeldReport, lost lab.Report) {
	t.b.Helper()
	ctx := t.b.Context()
	var holds []*lab.Held
	for _, v := range t.vips {
		h, err := t.Hold(ctx, lab.Phone, net.JoinHostPort(v.String(), "80"), max(1, connections/len(t.vips)), 200*time.Millisecond)
		check(t.b, err)
		holds = append(holds, h)
	}
	p := t.phone(vip)
	a, err := t.AskFrom(ctx, lab.Laptop, 50*time.Millisecond, t.vips...)
	check(t.b, err)
	check(t.b, t.endOn(ctx, machine, signal))
	t.until(time.Now().Add(away))
	check(t.b, t.startOn(ctx, machine))
	t.until(time.Now().Add(after))
	moved = t.movedAway(a.Stop(), owners)
	lost = p.Stop()
	for _, h := range holds {
		held.Add(h.Stop())
	}
	return moved, held, lost
}

// movedAway counts the VIPs that anybody but their owner answered for.
func (t *turn) movedAway(asked []lab.Asked, owners map[netip.Addr]string) int {
	t.b.Helper()
	hosts, err := t.MACs()
	check(t.b, err)
	moved := map[netip.Addr]bool{}
	for _, one := range asked {
		for _, m := range one.MACs() {
			if hosts[m] != owners[one.Address] {
				moved[one.Address] = true
			}
		}
	}
	return len(moved)
}
