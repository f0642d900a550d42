package edit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/inventorytest"
)

// world is an inventory as the law of reading back draws it. All names, addresses and other marks come
// from a few, so that the next one renames, swaps, moves and hands over what this one has.
type world struct{ spec []string }

// drawWorld draws one. What it draws need not be valid.
func drawWorld(t *rapid.T, label string) world {
	from := func(what string, some ...string) string { return rapid.SampledFrom(some).Draw(t, label+" "+what) }
	in := func(what string, low, high int) int { return rapid.IntRange(low, high).Draw(t, label+" "+what) }
	numbers := func(what string, n int) []int {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return rapid.Permutation(all).Draw(t, label+" "+what)
	}
	w := world{}
	add := func(format string, args ...any) { w.spec = append(w.spec, fmt.Sprintf(format, args...)) }
	add("bgp: {asn: 65010%s}", from("bgp", "", ", holdTime: 3s", ", bfd: fast", ", gracefulRestart: off"))
	add("bfdProfiles: [{name: fast, interval: 100ms}]")
	add("communities: {public: %q}", from("community", "65010:1", "large:65010:1:7"))
	add("%s", from("pods", "region: here", "podNetwork: {mode: fabric, cidrs: [10.244.0.0/16], rackPrefix: {ipv4: 20}}",
		"podNetwork: {mode: direct, cidrs: [\"fd00::/48\", 10.244.0.0/16]}", "podNetwork: {mode: overlay, vxlan: {port: 4790}}"))
	add("pools:")
	for i, number := range numbers("pools", 3)[:in("pools", 1, 3)] {
		add("- {name: p%d, addresses: [203.0.113.%d/27], state: %s, advertise: %s}", number, 32*i, from("pool state", "active", "draining"),
			from("advertise", "{}", "{communities: [public]}", "[{serviceSelector: {matchLabels: {a: b}}}, {}]", "{racks: [r0]}", "{localPref: 200, weighted: true}"))
	}
	if from("link", "no", "yes") == "yes" {
		add("- {name: link, addresses: [10.10.0.200-10.10.0.210], advertise: {via: %s}}", from("via", "bgp", "link"))
	}
	routers, addresses := numbers("routers", 5), numbers("router addresses", 5)
	router := func() string {
		r := fmt.Sprintf("{name: tor%d, address: 10.10.0.%d, asn: 6510%d}", routers[0], 1+addresses[0], routers[0])
		routers, addresses = routers[1:], addresses[1:]
		return r
	}
	if from("spec router", "yes", "no") == "yes" {
		add("routers: [%s]", router())
	}
	racks := numbers("racks", 4)[:in("racks", 1, 3)]
	names, hosts, boards, ids := numbers("names", 6), numbers("hosts", 12), numbers("boards", 6), numbers("ids", 6)
	add("racks:")
	for _, rack := range racks {
		add("- name: r%d", rack)
		add("  state: %s", from("rack state", "active", "active", "active", "maintenance", "retired"))
		add("  subnets: [10.10.0.0/24]")
		if len(routers) > 1 && from("rack router", "yes", "no") == "yes" {
			add("  routers: [%s]", router())
		}
		if peer := from("peers", "", "", "tor0", "tor1"); peer != "" {
			add("  peers: [%s]", peer)
		}
		add("  machines:")
		for range in("machines", 0, 3) {
			if len(names) == 0 {
				break
			}
			m := fmt.Sprintf("name: w%d, addresses: [10.10.0.%d", names[0], 11+hosts[0])
			if from("two addresses", "no", "yes") == "yes" {
				m += fmt.Sprintf(", 10.10.0.%d", 11+hosts[1])
			}
			m += "], state: " + from("state", "active", "active", "planned", "maintenance", "off", "retired")
			if from("board", "no", "yes") == "yes" {
				m += fmt.Sprintf(", match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f58593%d}", boards[0])
			}
			if from("id", "no", "yes") == "yes" {
				m += fmt.Sprintf(", id: SN-%d", ids[0])
			}
			m += from("more", "", fmt.Sprintf(", aliases: [\"k3s://%d\"]", ids[0]), fmt.Sprintf(", externalAddresses: [198.51.100.%d]", 1+boards[0]),
				", labels: {a: \"1.0\"}, taints: [{key: a, effect: NoSchedule}]", ", reason: \"\\uFFFE\\u0085: x\"", ", podCIDRs: [10.244.9.0/24]")
			add("  - {%s}", m)
			names, hosts, boards, ids = names[1:], hosts[2:], boards[1:], ids[1:]
		}
	}
	return w
}

func (w world) document() document.Document {
	return inventorytest.Document(strings.Join(w.spec, "\n") + "\n")
}

// readsBack fails where what is stored of an inventory is not read as the same, by the newest reader and by
// one that insists on what older ones of the format do, as a whole and by the agents of each rack.
func readsBack(t interface {
	Helper()
	Fatalf(string, ...any)
}, inv *inventory.Inventory) {
	t.Helper()
	docs := inventorytest.Stored(inv)
	if problems := document.ReadsBack(inv, docs...); len(problems) > 0 {
		t.Fatalf("%v\nof\n%s", problems, document.FormatAccepted(inv))
	}
	for _, parse := range []func(...document.Document) (*inventory.Inventory, inventory.Problems){document.ParseAccepted, document.ParseAsOlder} {
		again, problems := parse(docs...)
		if again == nil {
			t.Fatalf("%v\nof\n%s", problems, document.FormatAccepted(inv))
		}
		same := cmp.Options{cmpopts.IgnoreUnexported(inventory.Inventory{}), cmpopts.IgnoreFields(inventory.Inventory{}, "Positions"), cmpopts.IgnoreFields(inventory.Machine{}, "OwnID"), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, inventory.Range{}, inventory.Limit{})}
		if d := cmp.Diff(inv, again, same); d != "" {
			t.Fatalf("read back it differs (-is +read):\n%s", d)
		}
		for i, r := range inv.Racks {
			if part, problems := parse(docs[0], docs[i+1]); part == nil {
				t.Fatalf("the agents of %s: %v\nof\n%s", r.Name, problems, document.FormatAccepted(inv))
			}
		}
	}
}

// TestWhatIsAcceptedReadsBack is the law for every sequence of edits.
func TestWhatIsAcceptedReadsBack(t *testing.T) {
	edits, taken := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var inForce *inventory.Inventory
		for i := range 4 {
			edits++
			next, _ := document.Parse(drawWorld(t, fmt.Sprint("edit ", i)).document())
			if next == nil {
				continue
			}
			admitted, _ := Admit(next, inForce)
			if admitted == nil {
				continue
			}
			taken++
			readsBack(t, admitted)
			inForce = admitted
		}
	})
	if taken*4 < edits {
		t.Errorf("of %d edits %d were taken up: the others were not judged", edits, taken)
	}
}

// TestAMachineReadsBackWhoseBoardAndAddressesAnotherHas, which says by an id that it is another.
func TestAMachineReadsBackWhoseBoardAndAddressesAnotherHas(t *testing.T) {
	rack := func(name, state string) *inventory.Inventory {
		t.Helper()
		return inventorytest.Parsed(t, "podNetwork: {mode: fabric, cidrs: [10.244.0.0/16]}\nracks: [{name: r01, machines: [{name: "+name+
			", id: "+name+", addresses: [10.1.1.1], state: "+state+", match: {systemUUID: 4c4c4544-0032-3010-8053-b7c04f585931}}]}]")
	}
	for _, state := range []string{"active", "planned", "maintenance", "off"} {
		before, _ := Admit(rack("w1", state), nil)
		after, problems := Admit(rack("w9", state), before)
		if after == nil {
			t.Fatal(problems)
		}
		readsBack(t, after)
		was, _ := before.Machine("w1")
		is, held := after.Machine("w1")
		w9, _ := after.Machine("w9")
		if !held || !is.Held || is.State != inventory.StatePlanned || !slices.Equal(is.PodCIDRs, was.PodCIDRs) || is.PodCIDRs[0].Overlaps(w9.PodCIDRs[0]) {
			t.Errorf("%s: w1 was %+v and is %+v, w9 is %+v", state, was, is, w9)
		}
		if !slices.Equal(is.NodeTaints(), was.NodeTaints()) {
			t.Errorf("%s: the Node of w1 had the taints %v, and has %v", state, was.NodeTaints(), is.NodeTaints())
		}
		if l := LossesOf(after, before); !slices.Equal(l.Removed, []string{"w1"}) || len(l.Drained) > 0 {
			t.Errorf("%s: it is judged as %+v", state, l)
		}
		back, problems := Admit(rack("w1", state), after)
		if back == nil {
			t.Fatal(problems)
		}
		readsBack(t, back)
		if again, _ := back.Machine("w1"); again.Held || !slices.Equal(again.PodCIDRs, was.PodCIDRs) {
			t.Errorf("%s: back under its name it is %+v", state, again)
		}
	}
}

// TestARouterOfARackThatIsGoneReadsBack has machines of another rack, which is held, peer with it.
func TestARouterOfARackThatIsGoneReadsBack(t *testing.T) {
	before := inventorytest.Parsed(t, `
bgp: {asn: 65010}
racks:
  - {name: r01, routers: [{name: tor, address: 10.1.0.1, asn: 65101}]}
  - {name: r02, peers: [tor], machines: [{name: w2, addresses: [10.1.1.2]}]}
`)
	after, problems := Admit(inventorytest.Parsed(t, "bgp: {asn: 65010}\nracks: [{name: r03, machines: [{name: w3, addresses: [10.1.1.3]}]}]"), before)
	if after == nil {
		t.Fatal(problems)
	}
	readsBack(t, after)
	if w2, _ := after.Machine("w2"); len(after.Sessions(w2)) != 1 {
		t.Errorf("w2 has sessions %v", after.Sessions(w2))
	}
}

// TestWhatAnEarlierVersionStoredOfARenamedMachineIsRead: it stored a held machine without addresses, and
// could not read it itself.
func TestWhatAnEarlierVersionStoredOfARenamedMachineIsRead(t *testing.T) {
	doc := inventorytest.Document("racks: [{name: r01, peers: [], machines: [{name: w1, podCIDRs: [10.244.0.0/24], held: true, carved: true}]}]")
	inv, problems := document.ParseAccepted(doc)
	if inv == nil {
		t.Fatal(problems)
	}
	if m, _ := inv.Machine("w1"); m.State != inventory.StatePlanned || len(m.PodCIDRs) != 1 {
		t.Errorf("it is %+v", m)
	}
	problems = document.ReadsBack(inv, doc)
	if len(problems) != 1 || problems[0].Code != inventory.NotReadBack || problems[0].Path != "spec.racks[r01].machines[w1]" || !strings.Contains(problems[0].Message, "older versions: addresses is missing") {
		t.Errorf("it is said of what is stored: %v", problems)
	}
	readsBack(t, inv)
}

// TestWhatWouldBeReadAsSomethingElseIsNamed has the documents of another inventory stand for it.
func TestWhatWouldBeReadAsSomethingElseIsNamed(t *testing.T) {
	const text = "bgp: {asn: 65010}\nregion: here\nracks: [{name: r01, row: a, machines: [{name: w1, addresses: [10.1.1.1]}]}]"
	inv := inventorytest.Parsed(t, text)
	for path, other := range map[string]string{
		"":                             text,
		"spec":                         strings.Replace(text, "region: here", "region: there", 1),
		"spec.racks[r01]":              strings.Replace(text, "row: a", "row: b", 1),
		"spec.racks[r01].machines[w1]": strings.Replace(text, "10.1.1.1", "10.1.1.2", 1),
	} {
		problems := document.ReadsBack(inv, inventorytest.Stored(inventorytest.Parsed(t, other))...)
		if path == "" && len(problems) > 0 || path != "" && (len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Message, "read as something else")) {
			t.Errorf("want a problem of %q: %v", path, problems)
		}
	}
}
