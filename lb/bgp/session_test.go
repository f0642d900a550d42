package bgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// unanswered returns a session with an address at which no router answers.
func unanswered(router string, prefixes ...string) SessionConfig {
	session := sessionTo(router)
	session.Local = netip.MustParseAddr("127.0.0.1")
	var ads []advertise.Advertisement
	for _, p := range prefixes {
		ads = append(ads, advertisement(p))
	}
	return announcing(session, ads...)
}

// announcedBy lists the routes that a session's server has for its router.
func announcedBy(t *testing.T, sess *session) (ps []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := sess.do(ctx, func() error {
		if sess.server == nil {
			return nil
		}
		return sess.server.bgp.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: gobgp.RF_IPv4_UC},
			func(nlri gobgp.NLRI, _ []*apiutil.Path) { ps = append(ps, nlri.String()) })
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(ps)
	return ps
}

func TestWhatWasAnnouncedBesideAFailureIsWithdrawnLater(t *testing.T) {
	speaker := NewSpeaker(Options{Log: logger(t)})
	defer func() { _ = speaker.Leave(context.Background()) }()
	sc := unanswered("127.0.0.77", "203.0.113.10/32", "203.0.113.11/32")
	config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{sc}}
	if err := speaker.Set(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	session := speaker.session(config, sc)
	// The guard would not let the second of these through to the server.
	bad := advertisement("203.0.113.13/32")
	bad.NextHop = netip.MustParseAddr("2001:db8::1")
	half := sorted.Of(advertisement("203.0.113.10/32"), advertisement("203.0.113.12/32"), bad)
	for _, step := range []struct {
		want  routes
		fails bool
		has   string
	}{
		{half, true, "[203.0.113.10/32 203.0.113.12/32]"},
		{half, true, "[203.0.113.10/32 203.0.113.12/32]"},
		{sc.Advertisements, false, "[203.0.113.10/32 203.0.113.11/32]"},
	} {
		err := session.do(t.Context(), func() error { return session.set(t.Context(), sc.terms(config.RouterID), step.want) })
		if got := fmt.Sprint(announcedBy(t, session)); got != step.has || (err != nil) != step.fails {
			t.Errorf("%v: it announces %v, want %v; error %v", step.want, got, step.has, err)
		}
	}
}

func TestNoSessionWaitsForOneThatIsBeingEnded(t *testing.T) {
	speaker := NewSpeaker(Options{Log: logger(t)})
	defer func() { _ = speaker.Leave(context.Background()) }()
	goes, stays := unanswered("127.0.0.77", "203.0.113.10/32"), unanswered("127.0.0.78", "203.0.113.10/32")
	config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{goes, stays}}
	if err := speaker.Set(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	deaf, other := speaker.session(config, goes), speaker.session(config, stays)
	release, busy, set := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() { _ = deaf.do(context.Background(), func() error { close(busy); <-release; return nil }) }()
	<-busy
	config.Sessions = []SessionConfig{unanswered("127.0.0.78", "203.0.113.11/32")}
	go func() { set <- speaker.Set(t.Context(), config) }()
	for begin := time.Now(); fmt.Sprint(announcedBy(t, other)) != "[203.0.113.11/32]"; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 5*time.Second {
			t.Error("the other session was not updated")
			break
		}
	}
	select {
	case err := <-set:
		t.Error("Set did not wait for the session that ends:", err)
	default:
	}
	close(release)
	if err := <-set; err != nil {
		t.Error(err)
	}
}

// sessionWithoutRouter returns a session that connects to an address without a router.
func sessionWithoutRouter(t *testing.T) *session {
	t.Helper()
	speaker := NewSpeaker(Options{Log: logger(t)})
	t.Cleanup(func() { _ = speaker.Leave(context.Background()) })
	c := unanswered("127.0.0.77", "203.0.113.10/32")
	config := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{c}}
	if err := speaker.Set(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	return speaker.session(config, c)
}

// onOwner runs f on the goroutine that owns a session.
func onOwner(t *testing.T, x *session, f func()) {
	t.Helper()
	if err := x.do(t.Context(), func() error { f(); return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestADiagnosisWhoseTimeIsUpIsFollowedByAnAttempt(t *testing.T) {
	session := sessionWithoutRouter(t)
	for range 20 { // a select chooses at random
		onOwner(t, session, func() {
			session.closeServer(t.Context(), withoutNotification)
			session.retry.attempts = 1
			session.diagnoseOrConnect()
			session.diagnoser.cancel() // its time is up
		})
		for begin, trying := time.Now(), false; !trying; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 5*time.Second {
				t.Fatal("no attempt followed")
			}
			onOwner(t, session, func() { trying = session.phase == connecting })
		}
	}
}

func TestADiagnosisWithoutAnAnswerIsGivenUp(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		session.closeServer(t.Context(), withoutNotification)
		session.down(diagnosis{ASNMismatch, "as was found before"})
		session.phase.move(diagnosisBegun)
		session.diagnoser.cancel, session.diagnoser.serial = func() {}, 1
		session.onTimer()
		if session.phase != connecting || session.state.Cause != ASNMismatch {
			t.Errorf("it is %s: %v", session.phase, session.state)
		}
	})
}

func TestWhatADiagnosisFindsAfterItWasGivenUpCountsNoMore(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		session.closeServer(t.Context(), withoutNotification)
		session.phase.move(diagnosisBegun)
		session.diagnoser.cancel, session.diagnoser.serial = func() {}, 2
		session.onDiagnosis(1, diagnosis{ASNMismatch, "of the first diagnosis"})
		if session.phase != diagnosing || session.state.Cause == ASNMismatch {
			t.Errorf("the first diagnosis ended the second: %v", session.state)
		}
		session.onDiagnosis(2, diagnosis{Refused, "of the second diagnosis"})
		if session.phase != connecting || session.state.Cause != Refused {
			t.Errorf("the second diagnosis did not end: %v", session.state)
		}
	})
}
