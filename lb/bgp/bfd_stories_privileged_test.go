//go:build privileged && timing

package bgp

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/inventory"
)

func TestARouterWhosePathComesAndGoesIsLeftAloneForAWhile(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.session4(), "203.0.113.10/32")))))
			bfdUp(t, speaker)
			const flaps = 7
			leftAlone := false
			for range flaps {
				router.dropBFD("")
				bfdIsNotUp(t, speaker)
				router.passBFD()
				eventually(t, 15*time.Second, "BFD is up", func() (bool, string) {
					st := speaker.State(t.Context())[0]
					leftAlone = leftAlone || st.Cause == Flapping && strings.Contains(st.Detail, string(PathDown)) && time.Until(st.HeldUntil) > 0
					return st.BFD == "up", fmt.Sprint(st, " BFD ", st.BFD)
				})
			}
			// At the end it may be asked again, and refuse, since its own BFD has just lost the path.
			st := speaker.State(t.Context())[0]
			t.Logf("after %d flaps of the path: %v, %d losses", flaps, st, st.Losses)
			if st.Losses > 4 || !leftAlone {
				t.Errorf("the path flapped %d times; BGP was lost %d times, and it was left alone: %v; %v", flaps, st.Losses, leftAlone, st)
			}
		})
	}
}

func TestARouterThatChangesItsTimersLosesNothing(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			must(t, speaker.Set(t.Context(), configOf(withFastBFD(plan(router.session4(), "203.0.113.10/32")), withFastBFD(plan(router.session6(), "2001:db8:113::10/128")))))
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
			was := pace.Interval.Milliseconds()
			for _, ms := range []int64{700, 150, 300} {
				if dialect == "frr" {
					router.vtysh("bfd", "profile fast", fmt.Sprintf("transmit-interval %d", ms), fmt.Sprintf("receive-interval %d", ms))
				} else {
					router.configure(nil, fmt.Sprintf("min rx interval %d ms", was), fmt.Sprintf("min rx interval %d ms", ms),
						fmt.Sprintf("min tx interval %d ms", was), fmt.Sprintf("min tx interval %d ms", ms))
				}
				was = ms
				never(t, 4*time.Second, "a session was lost", func() (bool, string) {
					st := speaker.State(t.Context())
					return st[0].Losses+st[1].Losses > 0 || st[0].BFD != "up" || st[1].BFD != "up", fmt.Sprint(st)
				})
			}
			router.dropPackets() // and it is still there to notice this
			eventually(t, 6*time.Second, "both sessions are down for the path", func() (bool, string) {
				st := speaker.State(t.Context())
				return st[0].Cause == PathDown && st[1].Cause == PathDown, fmt.Sprint(st)
			})
		})
	}
}

// TestAnEditOfBFDTouchesNoBGPSession: the router keeps its own timers.
func TestAnEditOfBFDTouchesNoBGPSession(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			profile := pace
			set := func() {
				must(t, speaker.Set(t.Context(), configOf(router.vips(func(c *SessionConfig) { c.Session.BFD = profile })...)))
			}
			set()
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
			router.holds(5*time.Second, router.vipRoutes())
			lost := router.watch()
			for _, profile = range []inventory.BFDProfile{{Interval: time.Second, Multiplier: 5}, {Interval: 200 * time.Millisecond, Multiplier: 6}} {
				set()
				never(t, 4*time.Second, "a session noticed", func() (bool, string) {
					st := speaker.State(t.Context())
					return lost() > 0 || st[0].Losses+st[1].Losses > 0 || st[0].BFD != "up" || st[1].BFD != "up", fmt.Sprint(lost(), st)
				})
			}
			router.dropPackets() // and the last is in force
			t.Log("noticed after", eventually(t, 4*time.Second, "both sessions are down for the path", func() (bool, string) {
				st := speaker.State(t.Context())
				return isLostPath(st[0]) && isLostPath(st[1]), fmt.Sprint(st)
			}))
		})
	}
}

func TestBFDIsSwitchedOnAndOffAndNoRouteIsLost(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			on, off := configOf(router.vips(func(c *SessionConfig) { c.Session.BFD = pace })...), configOf(router.vips(nil)...)
			must(t, speaker.Set(t.Context(), off))
			isUp(t, speaker, 15*time.Second)
			router.holds(5*time.Second, router.vipRoutes())
			lost := router.watch()
			must(t, speaker.Set(t.Context(), on))
			bfdUp(t, speaker)
			eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
			if st := speaker.State(t.Context()); st[0].Losses+st[1].Losses > 0 || lost() > 0 {
				t.Errorf("switched on: %d routes lost, %v", lost(), st)
			}
			must(t, speaker.Set(t.Context(), off))
			isUp(t, speaker, 15*time.Second)
			never(t, 4*time.Second, "a session was lost", func() (bool, string) {
				st := speaker.State(t.Context())
				return !st[0].Up || !st[1].Up || st[0].BFD+st[1].BFD != "", fmt.Sprint(st)
			})
			router.holds(5*time.Second, router.vipRoutes())
			if lost() > 0 && dialect != "bird" { // which withdraws for BFD's sake, graceful restart or not
				t.Errorf("switched off: %d routes lost", lost())
			}
		})
	}
}

func TestABFDDaemonThatWasRestartedIsFoundAgain(t *testing.T) {
	router := newRouter(t).withBFD("frr", "")
	speaker := newSpeaker(t)
	must(t, speaker.Set(t.Context(), configOf(router.vips(func(c *SessionConfig) { c.Session.BFD = pace })...)))
	bfdUp(t, speaker)
	eventually(t, 10*time.Second, "BFD is up at the router", router.bfdSessions(2))
	bfdd := router.daemon[1]
	if !strings.Contains(bfdd.String(), "bfdd") {
		t.Fatal(bfdd)
	}
	must(t, bfdd.Process.Kill())
	_ = bfdd.Wait()
	bfdIsNotUp(t, speaker)
	router.startBFDD()
	bfdUp(t, speaker)
	eventually(t, 15*time.Second, "BFD is up at the router", router.bfdSessions(2))
	router.holds(5*time.Second, router.vipRoutes())
}

// patientPace survives nine lost packets in a row.
func patientPace(c *SessionConfig) {
	c.Session.BFD = pace
	c.Session.BFD.Multiplier = 10
}

func TestAFifthOfThePacketsMayGetLost(t *testing.T) {
	for dialect, lines := range withBFDOf {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			if dialect == "frr" {
				router.vtysh("bfd", "profile fast", "detect-multiplier 10")
			} else {
				router.configure(nil, "multiplier 4", "multiplier 10")
			}
			s := newSpeaker(t)
			must(t, s.Set(t.Context(), configOf(router.vips(patientPace)...)))
			bfdUp(t, s)
			router.dropBFD("numgen random mod 5 0")
			never(t, 15*time.Second, "a session was lost", func() (bool, string) {
				st := s.State(t.Context())
				return st[0].Losses+st[1].Losses > 0, fmt.Sprint(st)
			})
			if out, err := exec.Command("ip", "netns", "exec", router.ns, "nft", "list", "ruleset").CombinedOutput(); err != nil || !strings.Contains(string(out), "numgen") {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}
