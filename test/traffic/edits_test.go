package traffic

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// otherLabel is the code of documents of another inventory than their ConfigMap's label says.
const otherLabel = "P0105"

// window is a time in which machines with one router tried terms that did not come up. Their pods are out of reach of the other
// rack then: requests that another machine takes and passes on to them are lost.
type window struct{ from, to time.Time }

// Of four machines with a pod each, in two racks, one of each router's tries: a quarter of what comes in at any machine is for a
// pod of each, and half of that comes in at the other rack.
const lostByTrial = 2. / 8

// lostByMove is how many requests are under way to a VIP, at the rate at which clients ask, while a router changes its route to it.
const lostByMove = 2

// inForceFor is for how long an edit that is taken up stays: agents follow within a second, and clients notice what they do.
const inForceFor = 3 * time.Second

// TestNoEditCostsAClientARequest edits the inventory of a running lab, with a client on every VIP and pings between pods of both racks:
// mistakes, deletions, templates that went wrong, other names, other places, and honest changes. Each is refused, tried
// and put back, or taken up, as plinth diff says before; and the inventory is as it was after each. What is tried costs what
// is said of trials, and all else nothing. In the end Nodes, Services, routers and what is stored are as they were.
func TestNoEditCostsAClientARequest(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "edits", 4)
	story.Web(t, l, "mesh", 4)
	local := lab.LoadBalancer("edits-local", "edits")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	high := lab.LoadBalancer("edits-high", "edits")
	high.Annotations = map[string]string{"plinth.dev/ips": "203.0.113.77,2001:db8:113::77"}
	var vips []netip.Addr
	for _, s := range []*corev1.Service{local, high} {
		vips = append(vips, story.Expose(t, l, s)...)
	}
	usual := story.Edited(t, lab.Inventory(l.Topology), "spec:\n", "spec:\n  safety: {sessionTrial: 6s}\n")
	for _, m := range l.Topology.Machines() { // else names that are put back keep the ids that they have meanwhile
		usual = story.Edited(t, usual, "{name: "+m.Name+",", "{name: "+m.Name+", id: "+m.Name+",")
	}
	t.Cleanup(func() { must(t, l.ApplyInventory(context.Background(), lab.Inventory(l.Topology))) })
	marked := func(i int) string {
		return story.Edited(t, usual, "spec:\n", fmt.Sprintf("spec:\n  labels: {example.com/edit: e%d}\n", i))
	}
	for _, i := range []int{999, 1000} { // two: what is stored of the inventory before is of this story, too
		must(t, l.ApplyInventory(t.Context(), marked(i)))
		must(t, decided(t, l, fmt.Sprintf("e%d", i), ""))
	}
	probes, moves := map[netip.Addr]*lab.Prober{}, story.RouterMoves(t, l, vips)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, 20)
	}
	mesh := story.Mesh(t, l, func(from, to string) bool { return acrossRacks[from] == to || acrossRacks[to] == from })
	begin := stateOf(t, l)
	all, tried := edits(t, l, usual), []window{}
	for i, e := range all {
		text := marked(i)
		for j := 0; j < len(e.with); j += 2 {
			text = story.Edited(t, text, e.with[j], e.with[j+1])
		}
		if err := foretold(t, l, e, text); err != nil {
			t.Errorf("%s: %v", e.what, err)
		}
		before, pings, begun := reports(probes), reports(mesh.Probers), time.Now()
		must(t, l.ApplyInventory(t.Context(), text))
		if err := decided(t, l, fmt.Sprintf("e%d", i), e.want); err != nil {
			t.Errorf("%s: %v", e.what, err)
		}
		took, became := time.Since(begun), "taken up"
		switch e.want {
		case "":
			story.PauseFor(t, inForceFor)
		case onTrial:
			became = "put back"
			asBefore(t, l, probes)
			story.Calm(t, mesh)
			tried = append(tried, window{begun, time.Now()})
		default:
			became = "refused"
		}
		must(t, l.ApplyInventory(t.Context(), marked(1001+i)))
		must(t, decided(t, l, fmt.Sprintf("e%d", 1001+i), ""))
		lost := 0
		for vip, r := range reports(probes) {
			n, of := r.Lost-before[vip].Lost, r.Sent-before[vip].Sent
			lost += n
			if most := mostByChance(of, lostByTrial); e.want == onTrial && n > most {
				t.Errorf("%s: %s lost %d of %d requests, and what is tried explains %d", e.what, vip, n, of, most)
			}
		}
		between := 0
		for kind, r := range reports(mesh.Probers) {
			between += r.Lost - pings[kind].Lost
		}
		t.Logf("%-8s after %4.1fs, clients lost %d, pods %d: %s", became, took.Seconds(), lost, between, e.what)
	}
	if len(all) < 70 {
		t.Errorf("%d edits", len(all))
	}
	must(t, lab.Within(t.Context(), time.Minute, func(context.Context) error {
		if d := cmp.Diff(begin, stateOf(t, l)); d != "" {
			return fmt.Errorf("all is not as it was (-before +after):\n%s", d)
		}
		return nil
	}))
	whileTried := func(sent time.Time) bool {
		return slices.ContainsFunc(tried, func(w window) bool { return sent.After(w.from) && sent.Before(w.to) })
	}
	moved := moves()
	for vip, p := range probes {
		r := p.Stop()
		t.Logf("%s: %s", vip, r)
		still := r.NotMoved(moved[vip])
		if n, most := len(r.Losses)-len(still), lostByMove*len(moved[vip]); n > most {
			t.Errorf("%s: %d requests were lost by moves of routers, and %d moves explain %d", vip, n, len(moved[vip]), most)
		}
		if !slices.Contains(vips[:len(vips)/2], vip) { // of externalTrafficPolicy Local, each machine has its own pod
			still = slices.DeleteFunc(still, whileTried)
		}
		if len(still) > 0 {
			t.Errorf("%s: %d of %d requests were lost, and neither a router's move nor a trial explains it: at %v", vip, len(still), r.Sent, still)
		}
	}
	must(t, mesh.Stop())
	for kind, r := range reports(mesh.Probers) {
		t.Logf("%s between pods: %s", kind, r)
		if still := slices.DeleteFunc(r.Losses, whileTried); r.Sent == 0 || len(still) > 0 {
			t.Errorf("%s between pods: %d of %d were lost, and no trial explains it: at %v", kind, len(still), r.Sent, still)
		}
	}
}

// mostByChance is how many of n events of a probability there are at most, but for once in some ten thousand times.
func mostByChance(n int, p float64) int {
	return int(float64(n)*p + 4*math.Sqrt(float64(n)*p*(1-p)))
}

// acrossRacks is who pings whom, and is pinged.
var acrossRacks = map[string]string{"w1": "w3", "w2": "w4"}

// state is what edits that are put back leave as it was.
type state struct {
	Routers, Status string
	Placed          map[string]string // Nodes and Services
	Stored          []string          // what is in force, generations and the mark of the edit left out
}

func stateOf(t *testing.T, l *lab.Lab) state {
	t.Helper()
	status, _, err := l.Status(t.Context())
	must(t, err)
	s := state{Routers: story.RoutersKnow(t, l), Status: theGeneration.ReplaceAllString(status, ""), Placed: story.Placed(t, l)}
	for node, was := range s.Placed {
		s.Placed[node] = theMark.ReplaceAllString(was, "edit")
	}
	list, err := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: "plinth.dev/accepted"})
	must(t, err)
	for _, cm := range list.Items {
		s.Stored = append(s.Stored, theGeneration.ReplaceAllString(cm.Name, "")+" "+theMark.ReplaceAllString(cm.Data["inventory.yaml"], "edit"))
	}
	slices.Sort(s.Stored)
	return s
}

var (
	theMark       = regexp.MustCompile(`example\.com/edit: ?e\d+`)
	theGeneration = regexp.MustCompile(`(?m)(\.|, generation )\d+$`)
)

// foretold says why plinth diff did not say before what would become of an edit.
func foretold(t *testing.T, l *lab.Lab, e edit, text string) error {
	t.Helper()
	if e.want == otherLabel {
		return nil // a file has no label
	}
	said, err := l.Diff(t.Context(), text)
	refused := err != nil || strings.Contains(said, "it is refused: ")
	if e.want == onTrial && !strings.Contains(said, "tries them first") || e.want != onTrial && refused != (e.want != "") {
		return fmt.Errorf("plinth diff says, with error %v:\n%s", err, said)
	}
	return nil
}

// reports are what clients have seen so far.
func reports[K comparable](probes map[K]*lab.Prober) map[K]lab.Report {
	all := map[K]lab.Report{}
	for of, p := range probes {
		all[of] = p.Report()
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
	swapped := func(a, b string) []string { return []string{a, "\x00", b, a, "\x00", b} }
	line := func(of string) string {
		at := strings.Index(usual, of)
		return usual[strings.LastIndex(usual[:at], "\n")+1 : at+strings.Index(usual[at:], "\n")+1]
	}
	rack2 := racks[strings.Index(racks, "    - name: r2\n"):]
	rack1 := strings.TrimPrefix(strings.TrimSuffix(racks, rack2), "  racks:\n")
	podNetwork := usual[strings.Index(usual, "  podNetwork:\n"):strings.Index(usual, "  routers:\n")]
	at := l.Topology.MachineAddress
	uuid := func(name string) string { return lab.Machine{Name: name}.SystemUUID() }
	morePool := func(addresses string) []string {
		return []string{pools, pools + "    - {name: more, addresses: [" + addresses + "], autoAssign: false}\n"}
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
		// Other names.
		{"a machine is renamed", []string{"{name: w1,", "{name: w9,"}, ""},
		{"two machines swap their names and ids", swapped("{name: w1, id: w1,", "{name: w2, id: w2,"), onTrial},
		{"two machines swap their names and keep their ids", swapped("{name: w1,", "{name: w2,"), ""},
		{"a router is renamed", []string{"{name: tor-r1,", "{name: tor-x,", "peers: [tor-r1]", "peers: [tor-x]"}, ""},
		{"two routers swap their names", slices.Concat(swapped("{name: tor-r1,", "{name: tor-r2,"), swapped("peers: [tor-r1]", "peers: [tor-r2]")), ""},
		{"a rack is renamed", []string{"- name: r1\n", "- name: r7\n"}, ""},
		{"two racks swap their names", swapped("- name: r1\n", "- name: r2\n"), ""},
		{"the pool is renamed", []string{"- name: public\n", "- name: open\n"}, ""},
		{"a zone is renamed", []string{"zone: lab-a", "zone: lab-c"}, ""},
		{"a region", []string{"spec:\n", "spec:\n  region: north\n"}, ""},
		{"the inventory is renamed", []string{"metadata: {name: lab}", "metadata: {name: shelf}"}, otherLabel},
		// Other places.
		{"the racks are in another order", []string{rack1 + rack2, rack2 + rack1}, ""},
		{"a machine moves to a rack without its subnet", []string{line("{name: w2,"), "", line("{name: w4,"), line("{name: w4,") + line("{name: w2,")}, "P0602"},
		{"two machines swap their boards", swapped(uuid("w1"), uuid("w2")), ""},
		{"a machine has a board with a digit wrong", []string{uuid("w1"), "0" + uuid("w1")[1:]}, ""},
		{"a machine is known by its name alone", []string{", match: {systemUUID: " + uuid("w1") + "}", ""}, ""},
		{"two machines swap their addresses", slices.Concat(swapped(at("w1").V4.String()+",", at("w2").V4.String()+","), swapped(at("w1").V6.String(), at("w2").V6.String())), onTrial},
		{"a machine's address has a digit wrong", []string{at("w3").V4.String() + ",", "10.10.2.133,"}, onTrial},
		{"a machine has one family", []string{at("w4").V4.String() + ", \"" + at("w4").V6.String() + "\"", at("w4").V4.String()}, "P1016"},
		{"another machine in the same place", []string{"id: w4,", "id: w4-2026,"}, ""},
		{"a rack has the other's router, too", []string{"peers: [tor-r1]", "peers: [tor-r1, tor-r2]"}, ""},
		{"a rack has the other's router", []string{"peers: [tor-r1]", "peers: [tor-r2]"}, onTrial},
		{"a rack has all routers", []string{"      peers: [tor-r1]\n", ""}, ""},
		{"a rack more", []string{racks, racks + "    - {name: r3, subnets: [10.10.3.0/24], machines: []}\n"}, ""},
		// What pods have.
		{"the pod network is gone", []string{podNetwork, ""}, "P1016"},
		{"the pods' way knows no other subnet", []string{"mode: fabric", "mode: direct"}, "P1016"},
		{"pods are reached through tunnels", []string{"mode: fabric", "mode: overlay"}, ""},
		{"pods get other addresses", []string{lab.PodCIDR4.String(), "10.245.0.0/16"}, "P1016"},
		{"new Nodes get fewer addresses for their pods", []string{"ipv4: 24", "ipv4: 25"}, ""},
		{"a pool of the pods' addresses", morePool("10.244.16.0/26"), "P0703"},
		{"a pool of the Nodes' addresses", morePool("10.10.1.0/26"), "P0702"},
		{"a pool of the addresses of Services inside", morePool("10.96.0.0/26"), "P1017"},
	}
}

// decided waits until an edit was decided on: refused with these words, or in force.
func decided(t *testing.T, l *lab.Lab, mark, want string) error {
	t.Helper()
	maps := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace)
	return lab.Within(t.Context(), 6*time.Second, func(ctx context.Context) error {
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
