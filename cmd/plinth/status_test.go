package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/diagnose"
)

// aStatus has something of everything.
func aStatus() diagnose.Status {
	return diagnose.Status{
		Inventory: "home", Generation: "7", Services: 1,
		Racks: []diagnose.Rack{{Name: "shelf", Machines: 2, NodesReady: 2, FabricReady: 2, OutOfService: 2}},
		Pools: []diagnose.Pool{
			{Name: "default", State: "active", VIPs: 1, Families: []diagnose.Stock{{Family: "IPv4", Size: 64, Free: 63}, {Family: "IPv6", Size: math.MaxUint64, Free: math.MaxUint64}}},
			{State: "no pool", VIPs: 1},
		},
		OutOfService: []diagnose.OutOfService{{Kind: "machine", Name: "nuc2", Rack: "shelf", State: "maintenance"}, {Kind: "machine", Name: "nuc4", Rack: "shelf", State: "off"}},
		NotWell:      []string{}, Findings: []diagnose.Finding{},
	}
}

func (s *stringOrError) print(write func(io.Writer, diagnose.Status) error, of diagnose.Status) string {
	var text strings.Builder
	s.err = errors.Join(s.err, write(&text, of))
	return text.String()
}

type stringOrError struct{ err error }

func TestStatusAsText(t *testing.T) {
	const want = `inventory home, generation 7

RACK    MACHINES   NODES READY   FABRIC READY   OUT OF SERVICE
shelf   2          2             2              2

POOL      STATE     VIPS HELD   FREE
default   active    1           63 IPv4, 2^64 or more IPv6
-         no pool   1           -

Services of type LoadBalancer: 1

Out of service:
  machine nuc2 (shelf): maintenance
  machine nuc4 (shelf): off

No problems.
`
	var p stringOrError
	if got := p.print(writeStatusText, aStatus()); got != want || p.err != nil {
		t.Errorf("it prints, with error %v,\n%s\nwant\n%s", p.err, got, want)
	}
	s := aStatus()
	s.Leads = "w1_5e"
	if got := p.print(writeStatusText, s); !strings.HasPrefix(got, "inventory home, generation 7\ncontroller w1_5e leads\n\nRACK") {
		t.Errorf("it prints\n%s\nwithout who leads", got)
	}
	s.NotKnown, s.OutOfService = "whether the controller's pods run: pods is forbidden: jane may not list them", nil
	const notKnown = "\nServices of type LoadBalancer: 1\nNot known: whether the controller's pods run: pods is forbidden: jane may not list them\n\nNo problems in what is known.\n"
	if got := p.print(writeStatusText, s); !strings.HasSuffix(got, notKnown) {
		t.Errorf("it prints\n%s\nwithout\n%s", got, notKnown)
	}
}

// What many things have in common is one line, and with -o wide one each.
func TestStatusPutsTogetherWhatHasTheSameProblem(t *testing.T) {
	s := aStatus()
	say := func(kind, name, message string) {
		s.Findings = append(s.Findings, diagnose.Finding{Kind: kind, Name: name, Of: "r1", Message: message})
	}
	for i := range 4 {
		say("vip", fmt.Sprintf("192.0.2.%d", i+1), "nobody announces it: its pool is disabled")
	}
	for range 5 {
		say("inventory", "", "t.yaml:1:1: error[P0101]: no such key")
	}
	for i := range 12 {
		say("machine", fmt.Sprintf("w%02d", i), "its fabric is not ready: sessions 0/1; tor-r1: ASNMismatch")
	}
	for i := range 3 {
		say("machine", fmt.Sprintf("w%02d", i), "has no Node")
	}
	for _, f := range s.Findings {
		s.NotWell = append(s.NotWell, f.String())
	}
	const want = `
Problems:
  vip 192.0.2.1 (r1): nobody announces it: its pool is disabled; the same: 192.0.2.2, 192.0.2.3, 192.0.2.4
  t.yaml:1:1: error[P0101]: no such key
  t.yaml:1:1: error[P0101]: no such key
  t.yaml:1:1: error[P0101]: no such key
  t.yaml:1:1: error[P0101]: no such key
  t.yaml:1:1: error[P0101]: no such key
  machine w00 (r1): its fabric is not ready: sessions 0/1; tor-r1: ASNMismatch; the same: w01, w02, w03, w04, w05, w06, w07, w08 and 3 more (-o wide has all)
  machine w00 (r1) has no Node
  machine w01 (r1) has no Node
  machine w02 (r1) has no Node
`
	var p stringOrError
	if got := p.print(writeStatusText, s); !strings.HasSuffix(got, want) {
		t.Errorf("it prints\n%s\nwithout\n%s", got, want)
	}
	if got := p.print(writeStatusWide, s); strings.Count(got, "ASNMismatch") != 12 || strings.Contains(got, "the same") {
		t.Errorf("-o wide prints\n%s", got)
	}
}

// A program reads the same of both.
func TestStatusInYAMLSaysWhatItSaysInJSON(t *testing.T) {
	s := aStatus()
	s.Generation = "1e3" // which is text
	s.NotWell = []string{"node nuc1: off: yes\n- no # <&>"}
	var asJSON, asYAML bytes.Buffer
	if err := errors.Join(statusWriters["json"](&asJSON, s), statusWriters["yaml"](&asYAML, s)); err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(yaml.Unmarshal(asJSON.Bytes(), &a), yaml.Unmarshal(asYAML.Bytes(), &b)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" || !strings.HasPrefix(asYAML.String(), "inventory: home\ngeneration: \"1e3\"\nracks:\n") {
		t.Errorf("%s\n%s", diff, &asYAML)
	}
}

// watched is a view whose clock a test turns.
func watched(t *testing.T, output string, look func(n int, w io.Writer, stop func()) (bool, error)) (string, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetContext(ctx)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	v := viewFlags{output: output, watch: true, every: 2 * time.Second, clock: clock{
		now: func() time.Time { return now },
		after: func(d time.Duration) <-chan time.Time {
			now = now.Add(d)
			rang := make(chan time.Time, 1)
			if ctx.Err() == nil {
				rang <- now
			}
			return rang
		},
	}}
	n := 0
	err := v.show(cmd, func(_ context.Context, w io.Writer) (bool, error) { n++; return look(n, w, stop) })
	return out.String(), err
}

func TestAWatchDrawsAgainAndOutlivesAnAPIServerThatIsAway(t *testing.T) {
	out, err := watched(t, "text", func(n int, w io.Writer, stop func()) (bool, error) {
		fmt.Fprintln(w, "look", n)
		switch n {
		case 2:
			return false, errors.New("connection refused")
		case 4:
			stop()
			return false, context.Canceled
		}
		return n == 3, nil
	})
	const want = wipe + "2026-11-20T12:00:00Z, every 2s\n\nlook 1\n" +
		wipe + "2026-11-20T12:00:02Z, every 2s\n\nError: connection refused\n" +
		wipe + "2026-11-20T12:00:04Z, every 2s\n\nlook 3\n"
	if out != want || err != nil {
		t.Errorf("it ends with %v, and draws\n%q, want\n%q", err, out, want)
	}
}

func TestAWatchOfJSONIsRefused(t *testing.T) {
	_, err := watched(t, "json", nil)
	var said exit
	if !errors.As(err, &said) || said.code != exitUsage {
		t.Errorf("%v", err)
	}
}
