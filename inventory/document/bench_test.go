package document_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// large is an inventory of full machine entries, each rack in a document of its own.
func large(racks, perRack int) []document.Document {
	docs := []document.Document{{Source: "common.yaml", Data: []byte(`apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 65010}
  podNetwork: {mode: fabric, cidrs: [10.0.0.0/8, "fd00:244::/40"], rackPrefix: {ipv4: 17, ipv6: 56}, nodePrefix: {ipv4: 24, ipv6: 64}}
  pools:
    - {name: public, addresses: [203.0.113.0/24, "2001:db8:113::/112"]}
`)}}
	for r := range racks {
		var b bytes.Buffer
		fmt.Fprintf(&b, "apiVersion: plinth.dev/v1alpha1\nkind: Inventory\nmetadata: {name: dc1}\nspec:\n  racks:\n    - name: r%03d\n      zone: dc1-a\n      row: a\n      units: 100\n      subnets: [172.16.%d.0/24, \"2001:db8:%x::/64\"]\n", r, r, r)
		fmt.Fprintf(&b, "      routers:\n        - {name: tor-%03d, address: 172.16.%d.1, asn: 4200000000}\n      machines:\n", r, r)
		for m := range perRack {
			writeMachine(&b, r, m)
		}
		docs = append(docs, document.Document{Source: fmt.Sprintf("rack-%03d.yaml", r), Data: b.Bytes()})
	}
	return docs
}

// writeMachine writes every field that a machine can have.
func writeMachine(b *bytes.Buffer, r, m int) {
	fmt.Fprintf(b, `        - name: w-%03d-%03d
          id: SN-%03d%03d
          match: {systemUUID: 4c4c4544-0032-3010-8053-%06d%06d}
          aliases: ["k3s://w-%03d-%03d"]
          unit: %d
          type: r640-gold
          addresses: [172.16.%d.%d, "2001:db8:%x::%x"]
          externalAddresses: [198.18.%d.%d]
          hostname: w-%03d-%03d.dc1.example.com
          labels: {example.com/owner: search, example.com/batch: "2024-07"}
          taints: [{key: dedicated, value: search, effect: NoSchedule}]
          state: active
          reason: "put in with the spring batch"
`, r, m, r, m, r, m, r, m, m+1, r, m+10, r, m+10, r, m+10, r, m)
}

const manyRacks, machinesInRack = 125, 40

// yamlAlone is what the YAML library takes for the same bytes.
func yamlAlone(tb testing.TB, docs []document.Document) {
	for _, d := range docs {
		loader, err := yaml.NewLoader(bytes.NewReader(d.Data))
		if err != nil {
			tb.Fatal(err)
		}
		for {
			var n yaml.Node
			if err := loader.Load(&n); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// BenchmarkParse parses and validates 5,000 machines, in turns with what the YAML
// library alone takes for the same bytes; "x-yaml" is how many times that it takes
// (the median of the turns; the goal is three at most).
func BenchmarkParse(b *testing.B) {
	docs := large(manyRacks, machinesInRack)
	took := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	var ratios []float64
	for b.Loop() {
		b.StopTimer()
		alone := took(func() { yamlAlone(b, docs) })
		b.StartTimer()
		ours := took(func() {
			if inv, problems := document.Parse(docs...); inv == nil {
				b.Fatal(problems)
			}
		})
		ratios = append(ratios, ours.Seconds()/alone.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-yaml")
}

func BenchmarkCarve(b *testing.B) {
	inv, problems := document.Parse(large(manyRacks, machinesInRack)...)
	if inv == nil {
		b.Fatal(problems)
	}
	for b.Loop() {
		if out, problems := inventory.Carve(inv, nil); out == nil {
			b.Fatal(problems)
		}
	}
}

func BenchmarkFormatAccepted(b *testing.B) {
	inv, _ := document.Load(large(manyRacks, machinesInRack)...)
	for b.Loop() {
		document.FormatAccepted(inv)
	}
}

func BenchmarkMachine(b *testing.B) {
	inv, _ := document.Load(large(manyRacks, machinesInRack)...)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := inv.Machine("w-100-020"); !ok {
			b.Fatal("not found")
		}
	}
}

func TestALookupAllocatesNothing(t *testing.T) {
	inv, problems := document.Load(large(10, 40)...)
	if inv == nil {
		t.Fatal(problems)
	}
	node := inventory.NodeIdentity{ProviderID: "plinth://SN-005020", SystemUUID: inventory.ReportedUUID("4c4c4544-0032-3010-8053-000005000020"), Name: "w-005-020"}
	vip := netip.MustParseAddr("203.0.113.9")
	for name, ask := range map[string]func() bool{
		"Machine":   func() bool { _, ok := inv.Machine("w-005-020"); return ok },
		"MachineOf": func() bool { _, err := inv.MachineOf(node); return err == nil },
		"Rack":      func() bool { _, ok := inv.Rack("r005"); return ok },
		"Router":    func() bool { _, ok := inv.Router("tor-005"); return ok },
		"PoolOf":    func() bool { _, ok := inv.PoolOf(vip); return ok },
	} {
		if !ask() {
			t.Errorf("%s found nothing", name)
		}
		if n := testing.AllocsPerRun(100, func() { ask() }); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
