package agent

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/lb/bgp"
	"plinth.dev/plinth/provider/agent/plan"
)

// rotations are two machines of a rack with one router, whose Secret changes.
type rotations struct {
	t      *testing.T
	inv    *inventory.Inventory
	of     map[string]*rotation
	up     map[string]time.Time // machines whose session is up, since when
	secret bgp.Password
	clock  time.Time
}

func newRotations(t *testing.T, safety string) *rotations {
	inv, problems := document.Load(document.Document{Source: "site.yaml", Data: []byte(`
apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  safety: {` + safety + `}
  bgp: {asn: 65010, passwordFrom: {secret: bgp, key: tor}}
  routers: [{name: tor, address: 10.0.0.1, asn: 65101}]
  racks:
    - name: r1
      subnets: [10.0.0.0/24]
      machines:
        - {name: w0, addresses: [10.0.0.10], state: off}
        - {name: w1, addresses: [10.0.0.11]}
        - {name: w2, addresses: [10.0.0.12]}
`)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return &rotations{t: t, inv: inv, of: map[string]*rotation{"w1": {log: slog.Default()}, "w2": {log: slog.Default()}}, up: map[string]time.Time{}, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// after lets time pass, with the router's password; sessions come up a second after both agree, and
// end at once when the router's is another. It returns what each machine is planned with.
func (r *rotations) after(d time.Duration, router bgp.Password) string {
	r.t.Helper()
	for end := r.clock.Add(d); ; r.clock = r.clock.Add(500 * time.Millisecond) {
		var said []string
		for _, name := range []string{"w1", "w2"} {
			m, _ := r.inv.Machine(name)
			s := r.inv.Sessions(m)[0]
			in := plan.Inputs{Inventory: r.inv, Passwords: map[inventory.SecretKey]bgp.Password{s.Password: r.secret}}
			key := bgp.Key{Router: s.Router, Addr: s.RouterAddr}
			var have []bgp.SessionState
			if since, up := r.up[name]; up {
				have = append(have, bgp.SessionState{Key: key, Up: true, Since: since})
			}
			x := r.of[name]
			x.observe(in, m, have, r.clock)
			planned := x.password(s, in.Passwords)
			state := "down"
			switch since, up := r.up[name]; {
			case planned != router || up && since.Before(x.sessions[key].since):
				delete(r.up, name)
			case !up:
				r.up[name] = r.clock.Add(time.Millisecond)
				state = "up"
			default:
				state = "up"
			}
			said = append(said, fmt.Sprintf("%s %s with %s", name, state, string(planned)))
		}
		if !r.clock.Before(end) {
			return strings.Join(said, ", ")
		}
	}
}

func (r *rotations) want(d time.Duration, router bgp.Password, want string) {
	r.t.Helper()
	if got := r.after(d, router); got != want {
		r.t.Errorf("at %s: %s\nwant %s", r.clock.Format("04:05"), got, want)
	}
}

func TestAWrongSecretEndsOneSessionForATime(t *testing.T) {
	r := newRotations(t, "sessionTrial: 20s")
	r.secret = "one"
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	r.secret = "wrong"
	r.want(15*time.Second, "one", "w1 down with wrong, w2 up with one")
	r.want(10*time.Second, "one", "w1 up with one, w2 up with one")
	r.want(5*time.Minute, "one", "w1 up with one, w2 up with one")
	if said := r.of["w1"].refused(); !slices.Equal(said, []string{"tor"}) {
		t.Errorf("it says %q", said)
	}
	if kept := r.of["w1"].kept(map[inventory.SecretKey]bgp.Password{{Secret: "bgp", Key: "tor"}: "wrong"}); string(kept[inventory.SecretKey{Secret: "bgp", Key: "tor"}]) != "one" {
		t.Error("the process that follows is not to know what brings the session up")
	}
	r.secret = "two" // corrected, and the router follows after a while
	r.want(15*time.Second, "one", "w1 down with two, w2 up with one")
	r.want(15*time.Second, "two", "w1 up with two, w2 up with two")
	if said := r.of["w1"].refused(); said != nil {
		t.Errorf("it says %q still", said)
	}
}

func TestARouterThatChangesFirstIsFollowed(t *testing.T) {
	r := newRotations(t, "maxRemoved: 1")
	r.secret = "one"
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	r.want(20*time.Second, "two", "w1 down with one, w2 down with one")
	r.secret = "two"
	r.want(3*time.Second, "two", "w1 up with two, w2 up with two")
}

func TestASecretThatIsGoneEndsNoSessionAndIsNoPassword(t *testing.T) {
	r := newRotations(t, "maxRemoved: 1")
	r.secret = "one"
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	r.secret = ""
	r.want(time.Minute, "one", "w1 up with one, w2 up with one")
}

func TestWithoutATrialAllTakeAPasswordAtOnce(t *testing.T) {
	r := newRotations(t, "sessionTrial: 0s")
	r.secret = "one"
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	r.secret = "two"
	r.want(time.Second, "one", "w1 down with two, w2 down with two")
}

func TestAProcessThatBeginsFallsBackOnWhatTheOneBeforeWasUpWith(t *testing.T) {
	r := newRotations(t, "maxRemoved: 1")
	r.secret = "wrong"
	r.want(time.Second, "one", "w1 down with wrong, w2 down with wrong")
	for _, x := range r.of {
		x.seed(map[inventory.SecretKey]bgp.Password{{Secret: "bgp", Key: "tor"}: "one"})
	}
	r.want(15*time.Second, "one", "w1 up with one, w2 up with one")
}

// TestTheSamePasswordFromElsewhereLeavesASessionAsItIs, and as protected as before.
func TestTheSamePasswordFromElsewhereLeavesASessionAsItIs(t *testing.T) {
	r := newRotations(t, "sessionTrial: 20s")
	r.secret = "one"
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	for i := range r.inv.Routers {
		r.inv.Routers[i].Session.Password = inventory.Some(inventory.SecretKey{Secret: "other", Key: "tor"})
	}
	r.want(3*time.Second, "one", "w1 up with one, w2 up with one")
	r.secret = "wrong"
	r.want(5*time.Second, "one", "w1 down with wrong, w2 up with one")
}
