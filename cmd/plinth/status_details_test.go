package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/diagnose"
)

func someSessions() diagnose.Details[diagnose.SessionDetail] {
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return diagnose.Details[diagnose.SessionDetail]{
		Items: []diagnose.SessionDetail{
			{Node: "w1", AgentSession: diagnose.AgentSession{Router: "tor-r1", Address: "10.1.0.1", Phase: "established", Up: true, HoldTime: "9s", Since: since, Announced: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32")}}},
			{Node: "w2", AgentSession: diagnose.AgentSession{Router: "tor-r1", Address: "10.1.0.1", Phase: "idle", Since: since, Cause: "ASNMismatch", Detail: "the router is in another AS", Losses: 3}},
		},
		NotAsked: []diagnose.NotAsked{{Node: "w3", Why: "pod a-3: no answer within 10s"}, {Node: "w4", Why: "pod a-4: no answer within 10s"}, {Node: "w5", Why: "its kubelet is not heard of"}},
	}
}

func TestDetailsAsTables(t *testing.T) {
	for form, want := range map[string]string{
		"text": `NODE   ROUTER   ADDRESS    PHASE         SINCE                  ANNOUNCED   CAUSE
w1     tor-r1   10.1.0.1   established   2026-11-20T12:00:00Z   1           -
w2     tor-r1   10.1.0.1   idle          2026-11-20T12:00:00Z   0           ASNMismatch

Not asked (3 agents):
  w5: its kubelet is not heard of
  w3, w4: no answer within 10s
`,
		"wide": `NODE   ROUTER   ADDRESS    PHASE         SINCE                  ANNOUNCED   CAUSE         BFD   HOLD TIME   ACCEPTED   KEPT BACK   LOSSES   HELD UNTIL   DETAIL
w1     tor-r1   10.1.0.1   established   2026-11-20T12:00:00Z   1           -             -     9s          0          0           0        -            -
w2     tor-r1   10.1.0.1   idle          2026-11-20T12:00:00Z   0           ASNMismatch   -     -           0          0           3        -            the router is in another AS

Not asked (3 agents):
  w5: its kubelet is not heard of
  w3: pod a-3: no answer within 10s
  w4: pod a-4: no answer within 10s
`,
		"yaml": "items:\n    - node: w1\n      router: tor-r1\n",
	} {
		var got bytes.Buffer
		if err := sessionDetails.writers()[form](&got, someSessions()); err != nil || !strings.HasPrefix(got.String(), want) {
			t.Errorf("-o %s prints, with error %v,\n%s\nwant\n%s", form, err, &got, want)
		}
	}
}

// Every column of every table has a cell for an empty row, and every subcommand has its forms.
func TestEveryTableIsWritten(t *testing.T) {
	var b bytes.Buffer
	for name, write := range map[string]func() error{
		"vips": func() error {
			return vipDetails.write(&b, diagnose.Details[diagnose.VIPDetail]{Items: make([]diagnose.VIPDetail, 1)}, true)
		},
		"nodes": func() error {
			return nodeDetails.write(&b, diagnose.Details[diagnose.NodeDetail]{Items: make([]diagnose.NodeDetail, 1)}, true)
		},
		"pools": func() error {
			return poolDetails.write(&b, diagnose.Details[diagnose.PoolDetail]{Items: make([]diagnose.PoolDetail, 1)}, true)
		},
		"routes": func() error {
			return routeDetails.write(&b, diagnose.Details[diagnose.RouteDetail]{Items: make([]diagnose.RouteDetail, 1)}, true)
		},
	} {
		b.Reset()
		if err := write(); err != nil || strings.Count(b.String(), "\n") != 2 {
			t.Errorf("%s: %v\n%s", name, err, &b)
		}
		var errs bytes.Buffer
		if code := run([]string{"status", name, "-o", "xml"}, nil, &errs, &errs); code != exitUsage || !strings.Contains(errs.String(), "want text, wide, json or yaml") {
			t.Errorf("status %s -o xml: exit code %d, %s", name, code, &errs)
		}
	}
	if got := some([]string{"a", "b", "c", "d"}); got != "a,b,c,... (4)" {
		t.Error(got)
	}
}
