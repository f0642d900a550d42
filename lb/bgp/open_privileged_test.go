//go:build privileged

package bgp

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gobgp "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// oddOPENs holds OPENs that this machine refuses, each by a word of the session's detail.
var oddOPENs = map[string][]byte{
	"hold time is 1s": oddOPEN(4, 1, [4]byte{10, 99, 0, 99}, ipv4Capability...),
	"0.0.0.0":         oddOPEN(4, 9, [4]byte{}, ipv4Capability...),
	"version 3":       oddOPEN(3, 9, [4]byte{10, 99, 0, 99}, ipv4Capability...),
	"cannot be read":  oddOPEN(4, 9, [4]byte{10, 99, 0, 99}, 2, 3, 65, 1, 0),
	"RFC 9072":        extendedOPEN(),
}

// oddOPEN returns an OPEN that may be malformed.
func oddOPEN(version, hold byte, id [4]byte, params ...byte) []byte {
	body := anOPEN(version, hold, id, params...)
	body[1], body[2] = routerASN>>8, routerASN&0xff
	return headed(body)
}

// headed returns the body of an OPEN with its header.
func headed(body []byte) []byte {
	return append(append([]byte(strings.Repeat("\xff", 16)), 0, byte(19+len(body)), 1), body...)
}

// extendedOPEN returns an OPEN whose parameters have lengths of two octets (RFC 9072, section 2).
func extendedOPEN() []byte {
	caps := []byte{1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4, 0, 0, routerASN >> 8, routerASN & 0xff}
	param := append([]byte{2, 0, byte(len(caps))}, caps...)
	return headed(append([]byte{4, routerASN >> 8, routerASN & 0xff, 0, 9, 10, 99, 0, 99, 255, 255, 0, byte(len(param))}, param...))
}

// init adds a rogue for each of them.
func init() {
	for name, open := range oddOPENs {
		rogues["an OPEN: "+name] = func(conn net.Conn, _ *rand.Rand) {
			_, _ = conn.Write(open)
			for {
				if _, _, err := message(conn); err != nil {
					return
				}
				_, _ = conn.Write(keepalive())
			}
		}
	}
	for _, code := range []gobgp.BGPCapabilityCode{gobgp.BGP_CAP_GRACEFUL_RESTART, gobgp.BGP_CAP_EXTENDED_NEXTHOP} {
		rogues["a close at "+namesOfCapabilities[code]] = func(c net.Conn, _ *rand.Rand) { closeAt(c, code) }
	}
	for _, subcode := range []uint8{3, 6, 7} {
		rogues[fmt.Sprint("a refusal: ", subcode)] = func(c net.Conn, _ *rand.Rand) {
			if _, _, err := message(c); err == nil {
				send(c, gobgp.NewBGPNotificationMessage(2, subcode, nil))
				time.Sleep(200 * time.Millisecond)
			}
		}
	}
}

// closeAt closes a connection without a NOTIFICATION where the OPEN offers a capability.
func closeAt(conn net.Conn, code gobgp.BGPCapabilityCode) {
	_, body, err := message(conn)
	open := &gobgp.BGPOpen{}
	if err != nil || open.DecodeFromBytes(body) != nil {
		return
	}
	for _, p := range open.OptParams {
		offers := func(c gobgp.ParameterCapabilityInterface) bool { return c.Code() == code }
		if caps, ok := p.(*gobgp.OptionParameterCapability); ok && slices.ContainsFunc(caps.Capability, offers) {
			return
		}
	}
	if handshake(conn) {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// A probe offers what a session does: else such a router would answer it, and nothing would be wrong.
func TestARouterThatHangsUpAtACapabilityIsTold(t *testing.T) {
	for _, code := range []gobgp.BGPCapabilityCode{gobgp.BGP_CAP_GRACEFUL_RESTART, gobgp.BGP_CAP_EXTENDED_NEXTHOP} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			saysOf(t, "a close at "+namesOfCapabilities[code], netip.Addr{}, ClosedByRouter, "not take its OPEN")
		})
	}
}

// saysOf waits until a session with such a router has a cause, and a word in its detail.
func saysOf(t *testing.T, rogue string, routerID netip.Addr, cause Cause, word string) {
	t.Helper()
	r := newRouter(t).rogue(rogue)
	speaker := newSpeaker(t)
	c := configOf(plan(r.session4(), "203.0.113.10/32"))
	if routerID.IsValid() {
		c.RouterID = routerID
	}
	must(t, speaker.Set(t.Context(), c))
	eventually(t, 40*time.Second, "the detail names it", func() (bool, string) {
		st := speaker.State(t.Context())[0]
		return st.Cause == cause && strings.Contains(st.Detail, word), fmt.Sprint(st)
	})
}

func TestWhatThisMachineRefusesInARoutersOPENIsNamed(t *testing.T) {
	for name := range oddOPENs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			saysOf(t, "an OPEN: "+name, netip.Addr{}, OpenRefused, name)
		})
	}
}

func TestWhatARouterRefusesInThisMachinesOPENIsNamed(t *testing.T) {
	for subcode, want := range map[uint8]string{3: "228.3.44.119", 6: "hold time", 7: "capability"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			saysOf(t, fmt.Sprint("a refusal: ", subcode), netip.MustParseAddr("228.3.44.119"), RouterRefused, want)
		})
	}
}

// A router without a hold time is refused by real ones' words, too, and with BFD at this end alone. It gets no route.
func TestARouterThatNeverNoticesADeadMachineIsRefused(t *testing.T) {
	for dialect, lines := range map[string]string{"frr": "timers 0 0", "bird": " hold time 0;\n"} {
		for name, tt := range map[string]struct {
			change func(SessionConfig) SessionConfig
			detail string
		}{
			"no BFD":     {func(c SessionConfig) SessionConfig { return c }, noHoldTime},
			"BFD of one": {withFastBFD, noBFDEither},
		} {
			t.Run(dialect+", "+name, func(t *testing.T) {
				t.Parallel()
				r := dialects[dialect].start(newRouter(t), neighbour{lines: lines})
				s := newSpeaker(t)
				must(t, s.Set(t.Context(), configOf(tt.change(plan(r.session4(), "203.0.113.10/32")))))
				eventually(t, 20*time.Second, "the session is refused", func() (bool, string) {
					st := s.State(t.Context())[0]
					if got := r.routes(); len(got) > 0 {
						t.Errorf("the router has %v", got)
					}
					return st.Cause == OpenRefused && st.Detail == tt.detail && st.Phase == string(paused), fmt.Sprint(st)
				})
			})
		}
	}
}

// With BFD at both ends it stays, for longer than BFD may take to come up. What a process before this one announced stays, too,
// until BFD is up again.
func TestARouterWithoutAHoldTimeIsTakenWithBFD(t *testing.T) {
	for dialect, lines := range map[string]string{"frr": "timers 0 0\n", "bird": " hold time 0; bfd on;\n"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			router := newRouter(t).withBFD(dialect, lines)
			speaker := newSpeaker(t)
			config := configOf(withFastBFD(plan(router.session4(), "203.0.113.10/32")))
			must(t, speaker.Set(t.Context(), config))
			isUp(t, speaker, 10*time.Second)
			router.count(5*time.Second, 1)
			never(t, bfdTimeout+2*time.Second, "the session was lost", func() (bool, string) {
				st := speaker.State(t.Context())[0]
				return !st.Up || st.HoldTime != 0, fmt.Sprint(st)
			})
			must(t, speaker.Leave(t.Context()))
			router.dropBFD("") // which is up within milliseconds else, sooner than the test can see
			speaker, config.Restarting = newSpeaker(t), true
			must(t, speaker.Set(t.Context(), config))
			in := func(want phase) func() (bool, string) {
				return func() (bool, string) {
					st := speaker.State(t.Context())[0]
					if len(router.routes()) != 1 {
						t.Errorf("while %v in %s the router has %v", st, st.Phase, router.routes())
					}
					return st.Phase == string(want), fmt.Sprint(st)
				}
			}
			eventually(t, 10*time.Second, "the session waits for BFD", in(unwatched))
			router.passBFD()
			eventually(t, 10*time.Second, "the session is up again", in(established))
			never(t, 3*time.Second, "the route was lost", func() (bool, string) { return len(router.routes()) != 1, "" })
		})
	}
}
