package bgp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/wait"
)

func TestNothingIsChangedWhileASessionGetsItsFirstRoutes(t *testing.T) {
	session := sessionWithoutRouter(t)
	onOwner(t, session, func() {
		session.server.initial.begin()
		other := session.out.desired.Edit([]advertise.Advertisement{advertisement("203.0.113.10/32")}, []advertise.Advertisement{advertisement("203.0.113.11/32")})
		if err := session.set(t.Context(), session.terms, other); err != nil {
			t.Error(err)
		}
	})
	if got := announcedBy(t, session); !slices.Equal(got, []string{"203.0.113.10/32"}) {
		t.Errorf("GoBGP has %v while it gives the first routes", got)
	}
	onOwner(t, session, func() {
		session.server.awaitStored(t.Context())
		if err := session.sync(); err != nil {
			t.Error(err)
		}
	})
	if got := announcedBy(t, session); !slices.Equal(got, []string{"203.0.113.11/32"}) {
		t.Errorf("GoBGP has %v once they are given", got)
	}
}

// GoBGP reports in a goroutine of its own, which may have come only to an earlier state.
func TestALateReportDoesNotEndTheInitialUpdate(t *testing.T) {
	reports := make(chan event, 8)
	await := func(state gobgp.FSMState) {
		t.Helper()
		for {
			select {
			case got := <-reports:
				if got.state == state {
					return
				}
			case <-time.After(5 * time.Second):
				t.Fatalf("GoBGP did not report %v", state)
			}
		}
	}
	terms := unanswered("127.0.0.77").terms(netip.MustParseAddr("10.0.0.1"))
	server, err := start(t.Context(), terms, nil, false, 0, &gobgpLog{log: logger(t)}, func(ev event) { reports <- ev })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.close(context.Background(), withoutNotification) })
	await(gobgp.BGP_FSM_ACTIVE)
	server.initial.begin()
	if err := server.shutDown(t.Context(), "a state that is none of an established session"); err != nil {
		t.Fatal(err)
	}
	await(gobgp.BGP_FSM_IDLE)
	if made, _ := server.initial.exclude(func() error { return nil }); made {
		t.Error("a change was made while the initial update runs")
	}
}

// Of about 130 sessions that came up beside much else, two kept, or lacked, a route that was changed in just that moment.
func TestWhatIsSetWhileSessionsComeUpIsWhatTheirRoutersHave(t *testing.T) {
	const sessions = 24
	var routers [sessions]*listener
	var speakers [sessions]*Speaker
	var wants [sessions][]string
	var wg sync.WaitGroup
	for i := range sessions {
		// Half of the routers take one family alone, so that routes are withdrawn from them as the session comes up.
		router := listen(t, netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}), capabilitiesOf([]string{"46", "4"}[i%2])...)
		speaker := speakTo(t, router)
		routers[i], speakers[i] = router, speaker
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for up := false; !up && t.Context().Err() == nil; time.Sleep(2 * time.Millisecond) {
				up = speaker.State(t.Context())[0].Up // the last change comes about as the session does
				var ads []advertise.Advertisement
				ads, wants[i] = drawn(r, i%2 == 0)
				c := Config{RouterID: netip.MustParseAddr("10.0.0.1"), Sessions: []SessionConfig{announcing(router.session(), ads...)}}
				if err := speaker.Set(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, l := range routers {
		wait.True(t, 5*time.Second, 10*time.Millisecond, fmt.Sprintf("router %d has what was set last", i), func() (bool, string) {
			return slices.Equal(l.has(), wants[i]), fmt.Sprintf("it has %v, wanted %v: %v", l.has(), wants[i], speakers[i].State(t.Context())[0])
		})
	}
}

// drawn returns some of four routes of IPv4 and one of IPv6, and those of them that a router of both families, or of IPv4 alone, has.
func drawn(rng *rand.Rand, both bool) (ads []advertise.Advertisement, has []string) {
	const six = "2001:db8:113::10/128"
	if both {
		has = []string{six}
	}
	for n := range 4 {
		if p := fmt.Sprintf("203.0.113.1%d/32", n); rng.IntN(2) == 0 {
			ads, has = append(ads, advertisement(p)), append(has, p)
		}
	}
	return append(ads, advertisement(six)), has
}
