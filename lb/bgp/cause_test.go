package bgp

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestWhatARouterSaysLeadsToACause(t *testing.T) {
	tests := []struct {
		name     string
		evidence evidence
		want     Cause
	}{
		{"nothing", evidence{}, ClosedByRouter},
		{"nothing for the hold time", evidence{holdExpired: true, sent: &notification{code: 4}}, HoldTimerExpired},
		{"that it received nothing", evidence{received: &notification{code: 4}}, HoldTimerExpired},
		{"bad peer AS", evidence{received: &notification{code: 2, subcode: 2}}, ASNMismatch},
		{"too many prefixes", evidence{received: &notification{code: 6, subcode: 1}}, PrefixLimit},
		{"administrative shutdown", evidence{received: &notification{code: 6, subcode: 2, text: "maintenance"}}, RouterShutdown},
		{"neighbour removed", evidence{received: &notification{code: 6, subcode: 3}}, RouterShutdown},
		{"administrative reset", evidence{received: &notification{code: 6, subcode: 4}}, RouterShutdown},
		{"BFD down", evidence{received: &notification{code: 6, subcode: 10}}, PathDown},
		{"that another speaker has the session", evidence{received: &notification{code: 6, subcode: 7}}, SessionTaken},
		{"that it rejects the connection", evidence{received: &notification{code: 6, subcode: 5}}, RouterRefused},
		{"out of resources", evidence{received: &notification{code: 6, subcode: 8}}, RouterRefused},
		{"a malformed UPDATE", evidence{sent: &notification{code: 3, subcode: 1}}, MalformedMessage},
		{"an OPEN with another AS", evidence{sent: &notification{code: 2, subcode: 2}}, ASNMismatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := causeOfLoss(tt.evidence, terms{})
			if got.cause != tt.want || got.detail == "" {
				t.Errorf("got %v, want %s", got, tt.want)
			}
			if !slices.Contains(causes(), got.cause) {
				t.Errorf("%s is not among the causes", got.cause)
			}
		})
	}
}

func TestAProbeThatEndsWithAnErrorExplainsItself(t *testing.T) {
	tm := terms{Session: sessionTo("10.10.1.1")}
	tests := []struct {
		name string
		got  outcome
		want Cause
	}{
		{"refused", outcome{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}, Refused},
		{"no way", outcome{err: syscall.EHOSTUNREACH}, Unreachable},
		{"no address of our own", outcome{err: syscall.EADDRNOTAVAIL}, Unreachable},
		{"closed after connecting", outcome{reached: connected, err: syscall.ECONNRESET}, ClosedByRouter},
		{"another AS", outcome{reached: opened, asn: 65999}, ASNMismatch},
		{"a NOTIFICATION", outcome{reached: opened, asn: 65101, notification: &notification{code: 6, subcode: 2}}, RouterShutdown},
		{"silence", outcome{err: syscall.ETIMEDOUT}, NoAnswer},
		{"something else", outcome{err: errors.New("odd")}, Unreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := explain(tm, tt.got); got.cause != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

func TestARoutersTextCannotWriteControlCharactersIntoOurLogs(t *testing.T) {
	n := &gobgpLog{log: slog.New(slog.DiscardHandler)}
	n.logger().Info("received notification", "Code", 6, "Subcode", 2, "Communicated-Reason", "bye\n\x1b[31mlevel=ERROR")
	got := causeOfLoss(n.evidence(), terms{})
	if want := (diagnosis{RouterShutdown, `the router says code 6(cease) subcode 2(administrative shutdown): "bye??[31mlevel=ERROR"`}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheDiagnosisEndsInTime(t *testing.T) {
	if worst := firstProbe + 2*nextProbe + 3*probePause + aliveTime; worst > diagnosisTime {
		t.Errorf("all probes take up to %v, and the search ends after %v", worst, diagnosisTime)
	}
	if diagnosisTime > 30*time.Second {
		t.Error("a router that comes back in the meantime waits for too long")
	}
}

func TestARouterThatClosesLateTwiceIsNotWaitedForTwice(t *testing.T) {
	const within = time.Second
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			time.AfterFunc(within*6/10, func() { _ = c.Close() })
		}
	}()
	s := sessionTo("127.0.0.1")
	s.Local, s.Port = netip.Addr{}, listener.Addr().(*net.TCPAddr).AddrPort().Port()
	r := probeTwice(t.Context(), terms{RouterID: netip.MustParseAddr("10.0.0.1"), Session: s}, socket{}, within)
	if !timeout(r.err) {
		t.Errorf("the second probe took longer than what the first one left: %+v", r)
	}
}

func TestTheCauseIsLookedForEveryFourMinutesHoweverLongASessionIsDown(t *testing.T) {
	var at []int
	for attempts := 1; attempts <= 80; attempts++ {
		if r := (retry{attempts: attempts}); r.diagnosisDue() {
			at = append(at, attempts)
		}
	}
	if want := []int{1, 2, 4, 8, 16, 32, 48, 64, 80}; !slices.Equal(at, want) {
		t.Errorf("after %v attempts, want %v", at, want)
	}
	if pause := 16 * attemptTime; pause > 4*time.Minute {
		t.Errorf("sixteen attempts take %v", pause)
	}
}

// causes lists every cause that a session can be down for.
func causes() []Cause {
	return []Cause{
		Connecting, Misconfigured, PasswordMissing, Unreachable, NoAnswer, Refused, ClosedByRouter, TTLMismatch,
		PasswordMismatch, ASNMismatch, HoldTimerExpired, PrefixLimit, RouterShutdown, RouterRefused, OpenRefused, MalformedMessage, PathDown, Flapping, SessionTaken,
	}
}

// TestALossRightAfterTheSessionCameUpIsExplained: GoBGP may have read the router's NOTIFICATION
// before its session's goroutine has received that the session stands.
func TestALossRightAfterTheSessionCameUpIsExplained(t *testing.T) {
	log := &gobgpLog{log: slog.New(slog.DiscardHandler)}
	l := log.logger()
	l.Warn("failed to connect", "Error", "connection refused")
	l.Info("Peer Up")
	l.Warn("received notification", "Code", 6, "Subcode", 4)
	l.Info("Peer Down")
	s := &session{log: log.log, diagnoser: diagnoser{log: log}, timer: time.NewTimer(time.Hour), phase: connecting, common: common{onChange: func() {}}}
	s.onEstablished()
	if got := causeOfLoss(log.evidence(), terms{}); got.cause != RouterShutdown {
		t.Error(got)
	}
	if dial := log.evidence().dial; dial != "" {
		t.Errorf("an attempt of before the session is still evidence: %s", dial)
	}
}
