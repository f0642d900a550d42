package bgp

import (
	"time"

	api "github.com/osrg/gobgp/v4/api"

	"plinth.dev/plinth/inventory"
)

const (
	// connectRetry is the pause between two attempts to connect, in seconds. GoBGP's
	// own default of 120 s made a session wait for minutes after one refused SYN.
	connectRetry = 1
	// deferral bounds how long a restarted process waits for a router's End-of-RIB
	// before it sends its own routes, in seconds (RFC 4724, section 4.1).
	deferral = 1
	// maxReceived bounds the prefixes of a family before the session is
	// closed: a router's routes are rejected, but GoBGP keeps them in memory.
	maxReceived = 10_000
)

// peer returns the terms of a session as a peer of GoBGP's. Restarting sets the
// bits by which a router in graceful restart keeps the routes that it has.
func (t terms) peer(restarting bool) *api.Peer {
	session := t.Session
	hold := seconds(session.HoldTime)
	peer := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: session.RouterAddr.String(),
			LocalAsn:        uint32(session.LocalASN),
			PeerAsn:         uint32(session.RouterASN),
			AuthPassword:    t.Password.reveal(),
			Description:     session.Router,
		},
		Timers: &api.Timers{Config: &api.TimersConfig{
			ConnectRetry: connectRetry, HoldTime: hold, KeepaliveInterval: max(hold/3, 1),
		}},
		Transport:   &api.Transport{RemotePort: uint32(session.Port)},
		TtlSecurity: &api.TtlSecurity{Enabled: session.TTLSecurity, TtlMin: minTTL(session)},
		EbgpMultihop: &api.EbgpMultihop{
			Enabled: session.Multihop > 0 && !session.TTLSecurity, MultihopTtl: uint32(session.Multihop),
		},
		GracefulRestart: &api.GracefulRestart{
			Enabled:         session.RestartTime > 0,
			RestartTime:     uint32(seconds(session.RestartTime)),
			DeferralTime:    deferral,
			LocalRestarting: restarting,
			// With RFC 8538 on, a router would keep the routes of a dead machine for the
			// whole restart time instead of the hold time.
			NotificationEnabled: false,
		},
	}
	if session.Local.IsValid() {
		peer.Transport.LocalAddress = session.Local.String()
	}
	for _, f := range families(session) {
		peer.AfiSafis = append(peer.AfiSafis, &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: f, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: session.RestartTime > 0}},
			PrefixLimits:      &api.PrefixLimit{Family: f, MaxPrefixes: maxReceived, ShutdownThresholdPct: 75},
		})
	}
	return peer
}

// minTTL returns the least TTL that is accepted from a router (RFC 5082): 255 of a direct
// neighbour, one less for every further hop.
func minTTL(s inventory.Session) uint32 {
	switch {
	case !s.TTLSecurity:
		return 0
	case s.Multihop > 1:
		return 256 - uint32(s.Multihop)
	}
	return 255
}

// families returns the address families of a session as GoBGP has them.
func families(s inventory.Session) []*api.Family {
	var fs []*api.Family
	if s.Families.IPv4 {
		fs = append(fs, &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST})
	}
	if s.Families.IPv6 {
		fs = append(fs, &api.Family{Afi: api.Family_AFI_IP6, Safi: api.Family_SAFI_UNICAST})
	}
	return fs
}

// seconds rounds up: no timer may be shorter than the inventory has it.
func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }

// policies reject a router's routes, except default routes where the terms have them
// learned, and export nothing but our own routes.
func policies(learn inventory.Learn) *api.SetPoliciesRequest {
	ours := &api.Statement{
		Name:       "ours",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}
	in := []*api.Statement{ours}
	var sets []*api.DefinedSet
	if learn == inventory.LearnDefault {
		for name, prefix := range map[string]string{"default4": "0.0.0.0/0", "default6": "::/0"} {
			sets = append(sets, &api.DefinedSet{
				DefinedType: api.DefinedType_DEFINED_TYPE_PREFIX, Name: name,
				Prefixes: []*api.Prefix{{IpPrefix: prefix}},
			})
			in = append(in, &api.Statement{
				Name:       name,
				Conditions: &api.Conditions{PrefixSet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: name}},
				Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
			})
		}
	}
	out := &api.Statement{Name: "ours-only", Conditions: ours.Conditions, Actions: ours.Actions}
	return &api.SetPoliciesRequest{
		DefinedSets: sets,
		Policies:    []*api.Policy{{Name: policyIn, Statements: in}, {Name: policyOut, Statements: []*api.Statement{out}}},
	}
}

// Names of the import and the export policy.
const (
	policyIn  = "in"
	policyOut = "out"
)

// assign applies a policy. A route that it does not accept is rejected.
func assign(policy string, d api.PolicyDirection) *api.SetPolicyAssignmentRequest {
	return &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: "global", Direction: d, Policies: []*api.Policy{{Name: policy}},
		DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
	}}
}
