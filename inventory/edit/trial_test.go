package edit

import (
	"strings"
	"testing"

	"plinth.dev/plinth/lb"
)

func TestWhoTriesNewTerms(t *testing.T) {
	says := func(down ...string) lb.Report {
		counts := lb.Counts{Counted: true, SessionsWanted: 2}
		for _, router := range down {
			counts.Down = append(counts.Down, lb.DownSession{Router: router, Peer: "10.0.0.1", Cause: "NoAnswer"})
		}
		return lb.Report{Counts: counts}
	}
	for _, tt := range []struct {
		name    string
		agents  map[string]Agent
		routers []string
		want    string
	}{
		{"where another router is down for all, one whose session with this one is up", map[string]Agent{
			"w1": {Node: "w1", Says: says("tor-a", "tor-b")}, "w2": {Node: "w2", Says: says("tor-b")}}, []string{"tor-a"}, "w2 tor-a"},
		{"one that is up for both routers, and not one that is down", map[string]Agent{
			"w1": {Node: "w1", Up: true}, "w2": {Node: "w2", Says: says("tor-a", "tor-b")}}, []string{"tor-a", "tor-b"}, "w1 tor-a tor-b"},
		{"another one for each router", map[string]Agent{
			"w1": {Node: "w1", Up: true}, "w2": {Node: "w2", Up: true}}, []string{"tor-a", "tor-b"}, "w1 tor-a; w2 tor-b"},
		{"one that announces no VIP alone", map[string]Agent{
			"w1": {Node: "w1", Up: true, Alone: true}, "w2": {Node: "w2", Up: true}}, []string{"tor-a"}, "w2 tor-a"},
		{"one without endpoints, or with few", map[string]Agent{
			"w1": {Node: "w1", Up: true, Endpoints: 3}, "w2": {Node: "w2", Up: true, Endpoints: 2}}, []string{"tor-a"}, "w2 tor-a"},
		{"one without endpoints for both routers", map[string]Agent{
			"w1": {Node: "w1", Up: true, Endpoints: 3}, "w2": {Node: "w2", Up: true}}, []string{"tor-a", "tor-b"}, "w2 tor-a tor-b"},
		{"one with endpoints before one that announces a VIP alone", map[string]Agent{
			"w1": {Node: "w1", Up: true, Endpoints: 3}, "w2": {Node: "w2", Up: true, Alone: true}}, []string{"tor-a"}, "w1 tor-a"},
		{"one that does, where the others are down", map[string]Agent{
			"w1": {Node: "w1", Up: true, Alone: true}, "w2": {Node: "w2", Says: says("tor-a")}}, []string{"tor-a"}, "w1 tor-a"},
		{"of a router that takes the place of others, one that has one of these", map[string]Agent{
			"w1": {Node: "w1", Says: says("tor-a", "tor-b"), Routers: []string{"tor-a", "tor-b"}}, "w2": {Node: "w2", Says: says("tor-b"), Routers: []string{"tor-a", "tor-b"}}}, []string{"tor-c"}, "w2 tor-c"},
		{"one that is known to be up before one of which it is not said", map[string]Agent{
			"w1": {Node: "w1", Says: lb.ParseReport(says("tor-b").String() + ", and 4 more")}, "w2": {Node: "w2", Up: true}}, []string{"tor-a"}, "w2 tor-a"},
	} {
		changed := Retermed{}
		for _, router := range tt.routers {
			changed[router] = []string{"w1", "w2"}
		}
		if got := strings.Join((Trial{Routers: trialNodes(changed, tt.agents)}).Lines(), "; "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
