package report

import (
	"net/netip"
	"slices"
	"testing"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/bgp"
)

func TestSessionsThatAreUpSayWhatTheyWithhold(t *testing.T) {
	session := bgp.SessionState{Up: true, Withheld: []bgp.Withheld{
		{Reason: bgp.CoversSessionEnd, Family: lb.IPv4}, {Reason: bgp.FamilyNotNegotiated, Family: lb.IPv6}, {Reason: bgp.PrefixInvalid},
	}}
	session.Router, session.Addr = "tor", netip.MustParseAddr("10.0.0.1")
	down := session
	down.Up, down.Router = false, "other"
	want := []lb.Withheld{{Router: "tor", Peer: "10.0.0.1", Reason: bgp.CoversSessionEnd, Family: lb.IPv4}, {Router: "tor", Peer: "10.0.0.1", Reason: bgp.FamilyNotNegotiated, Family: lb.IPv6, All: true}}
	if got := Withheld([]bgp.SessionState{down, session}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
