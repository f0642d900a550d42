//go:build privileged

package bgp

import (
	"fmt"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

// A session that works on neither family: what differs between the two ends, and
// what the state has to name.
var mismatches = []struct {
	name    string
	router  neighbour
	ours    func(*SessionConfig)
	want    Cause
	comesUp bool
}{
	{name: "the same password", router: neighbour{password: "s3cret"}, ours: password("s3cret"), comesUp: true},
	{name: "another password", router: neighbour{password: "s3cret"}, ours: password("other"), want: PasswordMismatch},
	{name: "a password here only", ours: password("other"), want: PasswordMismatch},
	{name: "a password there only", router: neighbour{password: "s3cret"}, want: NoAnswer},
	{name: "TTL security at both ends", router: neighbour{gtsm: true}, ours: ttlSecurity, comesUp: true},
	{name: "TTL security here only", ours: ttlSecurity, want: TTLMismatch},
	{name: "TTL security there only", router: neighbour{gtsm: true}, want: TTLMismatch},
	{name: "the router expects another AS of us", router: neighbour{asn: 65099}, want: ASNMismatch},
	{name: "the router is in another AS", ours: func(c *SessionConfig) { c.Session.RouterASN = 65102 }, want: ASNMismatch},
	{name: "nothing listens on that port", ours: func(c *SessionConfig) { c.Session.Port = 1790 }, want: Refused},
	{name: "nobody has that address", ours: func(c *SessionConfig) { c.Session.RouterAddr = c.Session.RouterAddr.Next() }, want: Unreachable},
	{name: "this machine lost its address", ours: func(c *SessionConfig) { c.Session.Local = c.Session.RouterAddr }, want: Unreachable},
}

// password sets the password of a session.
func password(p Password) func(*SessionConfig) {
	return func(c *SessionConfig) {
		c.Password, c.Session.Password = p, inventory.SecretKey{Secret: "bgp", Key: "tor"}
	}
}

// ttlSecurity turns TTL security on.
func ttlSecurity(c *SessionConfig) { c.Session.TTLSecurity = true }

// Each family is asked by itself: a router that reads the first packets of a connection before it asks for their TTL, as BIRD
// does, has such a session come up for a moment now and then, and both need not be down at the same one.
func TestASessionThatCannotComeUpNamesItsCause(t *testing.T) {
	for dialect, d := range dialects {
		for _, tt := range mismatches {
			t.Run(dialect+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				r := d.start(newRouter(t), tt.router)
				speaker := newSpeaker(t)
				config := configOf(plan(r.session4(), "203.0.113.10/32"), plan(r.session6(), "2001:db8:113::10/128"))
				for i := range config.Sessions {
					if tt.ours != nil {
						tt.ours(&config.Sessions[i])
					}
				}
				must(t, speaker.Set(t.Context(), config))
				if tt.comesUp {
					isUp(t, speaker, 15*time.Second)
					return
				}
				for i := range config.Sessions {
					took := eventually(t, time.Minute, fmt.Sprintf("session %d is down for %s", i, tt.want), func() (bool, string) {
						st := speaker.State(t.Context())[i]
						return st.Cause == tt.want, fmt.Sprint(st)
					})
					t.Logf("session %d is named after %v more: %s", i, took, speaker.State(t.Context())[i].Detail)
				}
			})
		}
	}
}
