package onlink

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/test/lab"
)

// idle leaves the machines alone: no session may go down ("false-detections"), and no claim move
// ("VIPs-moved-idle").
func (t *turn) idle() {
	t.b.Helper()
	t.waitMesh(t.machineNames()...)
	owners, before := t.settled(), t.losses()
	asker, err := t.AskFrom(t.b.Context(), lab.Laptop, 100*time.Millisecond, t.vips...)
	check(t.b, err)
	sniffer, err := t.Sniff(t.b.Context(), t.machineNames()...)
	check(t.b, err)
	clock := watchStalls(t.b.Context())
	begun := time.Now()
	t.until(begun.Add(*idle))
	asked := asker.Stop()
	sniffer.Stop()
	moved := t.movedAway(asked, owners)
	told := t.announcedByOthers(sniffer, owners)
	lost := t.lostSince(before)
	unanswered := unansweredIn(asked)
	t.tell("%d machines idle for %s: %d sessions went down, %d of %d VIPs moved, %d announced by others than their owner, %d of %d questions not answered; %s",
		len(t.machineNames()), *idle, lost, moved, len(t.vips), told, unanswered, len(asked), clock.within(begun, time.Now()))
	t.measured.Add("false-detections", float64(lost))
	t.measured.Add("VIPs-moved-idle", float64(moved+told))
	if lost > 0 || moved > 0 || told > 0 {
		t.b.Errorf("%d false detections, %d VIPs answered and %d announced by others than their owner: want none", lost, moved, told)
	}
}

// machineNames are the machines, in the inventory's order.
func (t *turn) machineNames() (names []string) {
	for _, m := range t.Topology.Machines() {
		names = append(names, m.Name)
	}
	return names
}

// announcedByOthers counts the VIPs that a machine announced which was not their owner.
func (t *turn) announcedByOthers(s *lab.Sniffer, owners map[netip.Addr]string) int {
	others := map[netip.Addr]bool{}
	for _, f := range s.Frames(func(f lab.Frame) bool { return f.Kind == lab.ARPAnnounced || f.Kind == lab.NAAnnounced }) {
		if owner, is := owners[f.Address]; is && owner != f.Host {
			others[f.Address] = true
		}
	}
	return len(others)
}

// unansweredIn counts questions without an answer, but for the last of each address, whose answer may
// be under way.
func unansweredIn(asked []lab.Asked) (n int) {
	last := map[netip.Addr]int{}
	for i, one := range asked {
		last[one.Address] = i
	}
	for i, one := range asked {
		if len(one.Answers) == 0 && last[one.Address] != i {
			n++
		}
	}
	return n
}
