package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// edit is one edit of the lab's inventory: parts of its text and what takes their place.
type edit struct {
	what string
	with []string
	want string // words of the refusal; empty: it is taken up
}

// onTrial is the code of terms of sessions that were tried, and put back.
const onTrial = "P1011"

// window is a time in which a machine with one router tried terms that did not come up: its pods are
// out of reach then, and half of the machines or more serve on.
type window struct{ from, to time.Time }

// TestNoEditCostsAClientARequest edits the inventory of a running lab, with a client on every VIP:
// mistakes, deletions, templates that went wrong, and honest changes. Each is refused, tried
// and put back, or taken up, and the inventory is as it was after each. What is tried costs what
// is said of trials, and all else nothing.
func TestNoEditCostsAClientARequest(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "edits", 4)
	local := lab.LoadBalancer("edits-local", "edits")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	high := lab.LoadBalancer("edits-high", "edits")
	high.Annotations = map[string]string{"plinth.dev/ips": "203.0.113.77,2001:db8:113::77"}
	var vips []netip.Addr
	for _, s := range []*corev1.Service{local, high} {
		vips = append(vips, story.Expose(t, l, s)...)
	}
	usual := story.Edited(t, lab.Inventory(l.Topology), "spec:\n", "spec:\n  safety: {sessionTrial: 6s}\n")
	t.Cleanup(func() { must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology))) })
	marked := func(i int) string {
		return story.Edited(t, usual, "spec:\n", fmt.Sprintf("spec:\n  labels: {example.com/edit: e%d}\n", i))
	}
	must(t, l.ApplyInventory(t.Context(), marked(1000)))
	must(t, decided(t, l, "e1000", ""))
	probes, moves := map[netip.Addr]*lab.Prober{}, story.RouterMoves(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, 20)
	}
	all, tried := edits(t, l, usual), []window{}
	for i, e := range all {
		text, before, begun := marked(i), reports(probes), time.Now()
		for j := 0; j < len(e.with); j += 2 {
			text = story.Edited(t, text, e.with[j], e.with[j+1])
		}
		must(t, l.ApplyInventory(t.Context(), text))
		if err := decided(t, l, fmt.Sprintf("e%d", i), e.want); err != nil {
			t.Errorf("%s: %v", e.what, err)
		}
		took, became := time.Since(begun), "taken up"
		if e.want != "" {
			became = "refused"
		}
		if e.want == onTrial {
			became = "put back"
			asBefore(t, l, probes)
			tried = append(tried, window{begun, time.Now()})
		}
		must(t, l.ApplyInventory(t.Context(), marked(1001+i)))
		must(t, decided(t, l, fmt.Sprintf("e%d", 1001+i), ""))
		lost := 0
		for vip, r := range reports(probes) {
			n, of := r.Lost-before[vip].Lost, r.Sent-before[vip].Sent
			if lost += n; 2*n > of {
				t.Errorf("%s: %s lost %d of %d requests", e.what, vip, n, of)
			}
		}
		t.Logf("%-8s after %4.1fs, clients lost %d: %s", became, took.Seconds(), lost, e.what)
	}
	if len(all) < 40 {
		t.Errorf("%d edits", len(all))
	}
	moved := moves()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		still := slices.DeleteFunc(r.NotMoved(moved[vip]), func(sent time.Time) bool {
			return slices.ContainsFunc(tried, func(w window) bool { return sent.After(w.from) && sent.Before(w.to) })
		})
		if len(still) > 0 {
			t.Errorf("%s: %d of %d requests were lost, and neither a router's move nor a trial explains it: at %v", vip, len(still), r.Sent, still)
		}
	}
}

// reports are what clients have seen so far.
func reports(probes map[netip.Addr]*lab.Prober) map[netip.Addr]lab.Report {
	all := map[netip.Addr]lab.Report{}
	for vip, p := range probes {
		all[vip] = p.Report()
	}
	return all
}

// asBefore waits until all sessions are up and all clients served.
func asBefore(t *testing.T, l *lab.Lab, probes map[netip.Addr]*lab.Prober) {
	t.Helper()
	for _, m := range l.Topology.Machines() {
		must(t, l.WaitSessions(t.Context(), m.Name))
	}
	for _, p := range probes {
		must(t, p.Steady(t.Context(), 2*time.Second))
	}
}

// edits are those of the story. What is wrong is refused, and what people change every day is not.
func edits(t *testing.T, l *lab.Lab, usual string) []edit {
	const (
		range4 = "203.0.113.0/25"
		pool   = "    - name: public\n      addresses: [203.0.113.0/25, 2001:db8:113::/112]\n"
	)
	pools := usual[strings.Index(usual, "  pools:\n"):strings.Index(usual, "  racks:\n")]
	racks := usual[strings.Index(usual, "  racks:\n"):]
	asn := func(i int) string { return fmt.Sprintf("asn: %d, os:", l.Topology.Routers[i].ASN) }
	poolLine := strings.SplitAfter(pools, "\n")
	onPool := func(more string) []string { return []string{poolLine[2], poolLine[2] + "      " + more + "\n"} }
	machine := func(name, more string) []string {
		return []string{"{name: " + name + ", ", "{name: " + name + ", " + more + ", "}
	}
	return []edit{
		// Mistakes.
		{"the pool is shrunk", []string{range4, "203.0.113.0/30"}, "loses 203.0.113.77"},
		{"a digit of the pool is wrong", []string{range4, "203.0.133.0/25"}, "loses 203.0.113.77"},
		{"the pool has one family", []string{poolLine[2], "      addresses: [" + range4 + "]\n"}, "loses 2001:db8:113::77"},
		{"the pools are gone", []string{pools, ""}, "loses 203.0.113.77"},
		{"the pool is disabled", onPool("state: disabled"), "its pool is disabled"},
		{"the pool goes to a zone that is none", onPool("advertise: {zones: [nowhere]}"), "error"},
		{"the pool is announced for Services that there are not", onPool("advertise: [{serviceSelector: {matchLabels: {tier: none}}}]"), "loses 203.0.113.77"},
		{"a rack is in maintenance", []string{"    - name: r1\n", "    - name: r1\n      state: maintenance\n"}, "2 of 4 machines out of service"},
		{"a rack is off", []string{"    - name: r2\n", "    - name: r2\n      state: \"off\"\n"}, "2 of 4 machines out of service"},
		{"two machines are off", append(machine("w1", `state: "off"`), machine("w3", `state: "off"`)...), "2 of 4 machines out of service"},
		{"two machines are retired", append(machine("w1", "state: retired"), machine("w2", "state: retired")...), "P1001"},
		{"a template prints no racks", []string{racks, "  racks: []\n"}, "error"},
		{"a template prints one rack", []string{racks[strings.Index(racks, "    - name: r2\n"):], ""}, "P1001"},
		{"a pool that is expected is missing", []string{pools, "  expect: {pools: [public]}\n"}, "P0407"},
		{"a router's AS is wrong", []string{asn(0), "asn: 64999, os:"}, onTrial},
		{"both routers' AS is wrong", []string{asn(0), "asn: 64998, os:", asn(1), "asn: 64999, os:"}, onTrial},
		{"the machines' AS is wrong", []string{fmt.Sprintf("    asn: %d\n", lab.MachineASN), "    asn: 64997\n"}, onTrial},
		{"TTL security that the routers have not", []string{"    holdTime: 3s\n", "    holdTime: 3s\n    ttlSecurity: true\n"}, onTrial},
		{"a password that the routers have not", []string{"    holdTime: 3s\n", "    holdTime: 3s\n    passwordFrom: {secret: bgp, key: nosuch}\n"}, onTrial},
		{"a router has another's address", []string{l.Topology.RouterAddress(l.Topology.Routers[0].Name, "r1").V4.String(), "10.10.1.99"}, onTrial},
		{"a hold time that BGP does not have", []string{"holdTime: 3s", "holdTime: 2s"}, "error"},
		{"a key with a letter wrong", []string{"holdTime: 3s", "holdtime: 3s"}, "holdTime"},
		{"an address that is none", []string{l.Topology.MachineAddress("w1").V4.String(), "10.10.1.311"}, "error"},
		{"a machine twice", []string{"{name: w2,", "{name: w1,"}, "error"},
		{"a peer that is no router", []string{"peers: [tor-r1]", "peers: [tor-r9]"}, "error"},
		{"a tab", []string{"  pools:\n", "\tpools:\n"}, "error"},
		// Honest changes.
		{"a label for every Node", []string{"labels: {", "labels: {example.com/site: berlin, "}, ""},
		{"a machine is of another type", []string{"type: lab-small", "type: lab-large"}, ""},
		{"a rack is in another row", []string{"row: a", "row: b"}, ""},
		{"a machine has a taint", machine("w4", "taints: [{key: example.com/old, effect: PreferNoSchedule}]"), ""},
		{"a machine is in maintenance", machine("w2", "state: maintenance, reason: disks"), ""},
		{"the pool grows", []string{range4, "203.0.113.0/24"}, ""},
		{"the pool is shrunk where nobody has an address", []string{range4, "203.0.113.0-203.0.113.100"}, ""},
		{"the pool drains", onPool("state: draining"), ""},
		{"a pool more", []string{"  pools:\n", "  pools:\n    - {name: more, addresses: [198.51.100.0/28]}\n"}, ""},
		{"the pool is for other namespaces", onPool("namespaces: [prod]"), ""},
		{"what is in use is reserved for another", onPool("reserved: {203.0.113.77: prod/web}"), ""},
		{"the pool is not given by itself", onPool("autoAssign: false"), ""},
		{"the pool has a community", onPool(`advertise: {communities: ["65010:100"]}`), ""},
		{"the pool is announced with a preference", onPool("advertise: {prepend: 1}"), ""},
		{"another hold time", []string{"holdTime: 3s", "holdTime: 4s"}, ""},
		{"another restart time", []string{"restartTime: 20s", "restartTime: 30s"}, ""},
		{"limits", []string{"sessionTrial: 6s", "sessionTrial: 6s, maxDrained: 50%"}, ""},
		{"a note", []string{"spec:\n", "spec:\n  x-note: of the night shift\n"}, ""},
	}
}

// decided waits until an edit was decided on: refused with these words, or in force.
func decided(t *testing.T, l *lab.Lab, mark, want string) error {
	t.Helper()
	maps := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace)
	return lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) error {
		status, err := maps.Get(ctx, "plinth-inventory-status", metav1.GetOptions{})
		if err != nil {
			return err
		}
		accepted, err := maps.Get(ctx, "plinth-accepted", metav1.GetOptions{})
		if err != nil {
			return err
		}
		inForce := strings.Contains(accepted.Data["inventory.yaml"], "example.com/edit: "+mark+"\n")
		if refused := want != ""; inForce == refused || !strings.Contains(status.Data["problems"], want) || (status.Data["ready"] == "true") == refused {
			return fmt.Errorf("in force: %v; ready %s; problems: %s", inForce, status.Data["ready"], status.Data["problems"])
		}
		return nil
	})
}
