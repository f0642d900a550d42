package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/components"
)

const printed = `goos: linux
pkg: plinth.dev/plinth/lb/advertise
round 1 of 3: 5 ms
BenchmarkPlan/one_of_1-2   	     100	      6000 ns/op	  734003 B/op
BenchmarkPlan/one_of_1-2   	     100	      9000 ns/op
BenchmarkPlan/one_of_1-2   	     100	      7000 ns/op
BenchmarkPlan/all_of_1-2   	     100	      9500 ns/op	  734003 B/op
BenchmarkNewVIP/gate/nftables-2 	       1	 1234 ms-p50-route-ipv4	 0.3456 lost	 55.40 MB	 60.10 MB-agent
ok  	plinth.dev/plinth/lb/advertise	1.2s
`

func TestARecordHoldsWhatBenchmarksPrintedAndOfWhat(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evidence", "plan.txt")
	of := origin{Commit: "0123abcd", Date: "2026-11-28", Processors: "2", Kernel: "6.18", Load: "0.31"}
	if err := write(file, of, []byte(printed)); err != nil {
		t.Fatal(err)
	}
	r, there, err := read(file)
	if err != nil || !there {
		t.Fatal(there, err)
	}
	if d := cmp.Diff(of, r.origin); d != "" {
		t.Error(d)
	}
	for _, tt := range []struct{ got, want string }{
		{must(r.Micros("Plan/one_of_1")), "7"},
		{must(r.Millis("Plan/one_of_1")), "0.01"},
		{must(r.Megabytes("Plan/one_of_1")), "0.73"},
		{must(r.Span("Plan/one_of_1", "ns/op")), "6,000 to 9,000"},
		{must(r.MicrosAmong("Plan/")), "7 to 9.5"},
		{must(r.Among("Plan/", "B/op")), "734,003"},
		{must(r.Among("Plan/", "MB")), "the record has no MB of Plan/all_of_1"},
		{must(r.Among("Pass/", "B/op")), "the record has no benchmark whose name begins with Pass/"},
		{must(r.Median("NewVIP/gate/nftables", "ms-p50-route-ipv4")), "1,234"},
		{must(r.Median("NewVIP/gate/nftables", "MB")), "55"},
		{must(r.Median("NewVIP/gate/nftables", "MB-agent")), "60"},
		{must(r.Median("NewVIP/gate/nftables", "lost")), "0.35"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
	if !r.Has("NewVIP/gate/nftables", "lost") || r.Has("NewVIP/gate/nftables", "ns/op") || r.Has("Pass", "lost") {
		t.Error("the record has other figures than were printed")
	}
	for _, absent := range []func(benchmark, unit string) (string, error){r.Median, r.Span} {
		if _, err := absent("Plan/one_of_1", "MB"); err == nil || !strings.Contains(err.Error(), "no MB of Plan/one_of_1") {
			t.Error(err)
		}
	}
}

func must(s string, err error) string {
	if err != nil {
		return err.Error()
	}
	return s
}

func TestNothingIsWrittenWhereNothingWasMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.txt")
	err := write(file, origin{Commit: "0123abcd", Date: "2026-11-28", Processors: "2", Kernel: "6.18", Load: "0.31"}, []byte("ok  	plinth.dev/plinth	1.2s\n"))
	if err == nil || !strings.Contains(err.Error(), "no benchmark printed a figure") {
		t.Error(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a record of nothing")
	}
	if err := write(file, origin{Commit: "0123abcd"}, []byte(printed)); err == nil || !strings.Contains(err.Error(), `no line "date: "`) {
		t.Error(err)
	}
}

func TestFiguresAreRoundedOnce(t *testing.T) {
	for figure, want := range map[float64]string{0: "0", 0.3456: "0.35", 0.004: "0", -0.002: "0", 2: "2", 2.346: "2.3", 9.96: "10", 12.5: "13", 999.6: "1,000", 1234567: "1,234,567", -1500: "-1,500"} {
		if got := text(figure); got != want {
			t.Errorf("%v is %s, want %s", figure, got, want)
		}
	}
}

func TestAgesAreOfThePartsThatAreAskedForInTheirOrder(t *testing.T) {
	asked, err := chosen([]string{"starts", "agent"})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := printAges(t.Context(), &said, t.TempDir(), asked); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("starts       was never measured\nagent        was never measured\n", said.String()); d != "" {
		t.Error(d)
	}
}

func TestEveryPartHasItsTableItsPlaceAndItsCode(t *testing.T) {
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	has, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
		page, err := os.ReadFile(filepath.Join(root, p.page))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := place(string(page), p, ""); err != nil {
			t.Error(err)
		}
		for _, c := range p.code {
			if _, err := os.Stat(filepath.Join(root, c)); err != nil {
				t.Errorf("%s is about code that is not there: %v", p.name, err)
			}
		}
	}
	slices.Sort(names)
	if d := cmp.Diff(names, has); d != "" {
		t.Errorf("parts and their templates differ:\n%s", d)
	}
}

func TestEveryTableIsThatOfItsRecord(t *testing.T) {
	root, err := components.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		r, there, err := read(filepath.Join(root, p.record()))
		if err != nil {
			t.Error(err)
			continue
		}
		if !there {
			t.Errorf("%s was never measured: make evidence PARTS=%s", p.name, p.name)
			continue
		}
		table, err := render(p, r)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		page, err := os.ReadFile(filepath.Join(root, p.page))
		if err != nil {
			t.Fatal(err)
		}
		want, err := place(string(page), p, table)
		if err != nil {
			t.Error(err)
			continue
		}
		if d := cmp.Diff(want, string(page)); d != "" {
			t.Errorf("%s does not have the table of %s (-want, +got): go run -C test ./evidence -render\n%s", p.page, p.record(), d)
		}
	}
}
