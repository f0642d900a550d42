package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// netAdmin is the bit of CAP_NET_ADMIN, as /proc/<pid>/status prints sets of capabilities.
const netAdmin = "0000000000001000"

// Every other story is told by agents with these rights, too.
func TestAnAgentRunsWithTheRightToWriteRoutesAlone(t *testing.T) {
	l := story.Shared(t)
	for _, m := range l.Topology.Machines() {
		p, ok := l.Process("agent-" + m.Name)
		if !ok {
			t.Fatalf("%s has no agent", m.Name)
		}
		want := map[string]string{
			"CapInh": "0000000000000000", "CapAmb": "0000000000000000",
			"CapPrm": netAdmin, "CapEff": netAdmin, "CapBnd": netAdmin,
			"NoNewPrivs": "1", "Seccomp": "2", // a filter, seccomp(2)
		}
		if d := cmp.Diff(want, statusOf(t, p.Pid, want)); d != "" {
			t.Errorf("the agent of %s (-want +have):\n%s", m.Name, d)
		}
		if have := writable(t, p.Pid); !slices.Equal(have, []string{"/dev/null", "/proc", "/var/lib/plinth"}) {
			t.Errorf("the agent of %s may write to %v", m.Name, have)
		}
		root := fmt.Sprintf("/proc/%d/root", p.Pid)
		for _, file := range []string{"/x", "/proc/sys/net/ipv4/ip_forward"} {
			if err := os.WriteFile(root+file, []byte("1"), 0o600); !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s of the agent of %s can be written to: %v", file, m.Name, err)
			}
		}
		listening, err := netns.Output(t.Context(), l.Namespace(m.Name), "ss", "-Hltnp")
		must(t, err)
		if !strings.Contains(listening, ":10268 ") || strings.Contains(listening, ":179 ") {
			t.Errorf("%s listens on\n%s", m.Name, listening)
		}
	}
}

// statusOf reads some fields of /proc/<pid>/status.
func statusOf(t *testing.T, pid int, fields map[string]string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	have := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if _, ok := fields[key]; ok {
			have[key] = strings.TrimSpace(value)
		}
	}
	return have
}

// writable are the places where a process has mounts that can be written to, sorted.
func writable(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must(t, err)
	var places []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // proc(5): the fifth is the place, the sixth the mount's own options
		if slices.Contains(strings.Split(fields[5], ","), "rw") {
			places = append(places, fields[4])
		}
	}
	slices.Sort(places)
	return places
}

func TestSessionsWithPasswordTTLSecurityAndBFDComeUpWithTheseRights(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "guarded", 4)
	vips := story.Expose(t, l, lab.LoadBalancer("guarded", "guarded"))
	must(t, l.SetPassword(t.Context(), "tell-nobody"))
	guarded := strings.Replace(lab.Inventory(l.Topology), "    gracefulRestart:",
		"    ttlSecurity: true\n    bfd: lab\n    passwordFrom: {secret: "+lab.PasswordSecret+", key: "+lab.PasswordKey+"}\n    gracefulRestart:", 1)
	guarded = strings.Replace(guarded, "  bgp:\n", "  bfdProfiles:\n    - {name: lab, interval: 300ms, multiplier: 10}\n  bgp:\n", 1)
	story.InForce(t, l, guarded)
	must(t, lab.Within(t.Context(), 30*time.Second, func(ctx context.Context) (err error) {
		for _, m := range l.Topology.Machines() {
			sessions, unasked := l.Sessions(ctx, m.Name)
			err = errors.Join(err, unasked)
			for _, s := range sessions {
				if !s.Up || s.BFD != "up" {
					err = errors.Join(err, fmt.Errorf("%s: %+v", m.Name, s))
				}
			}
		}
		return err
	}))
	story.Announced(t, l, vips)
}
