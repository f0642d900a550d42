//go:build privileged

package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The process that is killed and started again is this test binary itself.

const (
	asAgent  = "PLINTH_TEST_AGENT" // address of the router: speak to it until killed
	asFollow = "PLINTH_TEST_FOLLOW"
	asBFD    = "PLINTH_TEST_BFD" // with this profile
)

func TestAgentProcess(t *testing.T) {
	var n int
	if _, err := fmt.Sscan(os.Getenv(asAgent), &n); err != nil {
		return // only when started by runAgent
	}
	r := &router{ns: fmt.Sprintf("plt-r%d", n)}
	r.number(n)
	s := NewSpeaker(Options{Log: logger(t)})
	c := config(plan(r.session4(), hundred("203.0.113.%d/32")...), plan(r.session6(), hundred("2001:db8:113::%x/128")...))
	c.Restarting = os.Getenv(asFollow) != ""
	if profile := os.Getenv(asBFD); profile != "" {
		must(t, json.Unmarshal([]byte(profile), &pace))
		for i := range c.Sessions {
			c.Sessions[i] = withFastBFD(c.Sessions[i])
		}
	}
	must(t, s.Set(t.Context(), c))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGUSR1)
	if <-stop == syscall.SIGTERM {
		must(t, s.Leave(context.Background()))
	} else {
		must(t, s.Stop(context.Background(), "moved to another rack"))
	}
}

// withPace is what makes an agent process use BFD.
func withPace() string {
	b, _ := json.Marshal(pace)
	return asBFD + "=" + string(b)
}

func hundred(format string) (ps []string) {
	for i := range 100 {
		ps = append(ps, fmt.Sprintf(format, i+1))
	}
	return ps
}

func runAgent(t testing.TB, r *router, follows bool, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe", "-test.run=^TestAgentProcess$", "-test.timeout=30m")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", asAgent, r.n))
	c.Env = append(c.Env, env...)
	if follows {
		c.Env = append(c.Env, asFollow+"=1")
	}
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

var dialects = map[string]struct {
	start func(*router, neighbour) *router
	lines string
}{
	"frr":  {(*router).frr, ""},
	"bird": {(*router).bird, " graceful restart on;\n"},
}

func TestAProcessThatIsKilledOrLeavesAndComesBackLosesNoRoute(t *testing.T) {
	for name, d := range dialects {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s, %v", name, sig), func(t *testing.T) {
				t.Parallel()
				r := d.start(newRouter(t), neighbour{lines: d.lines})
				first := runAgent(t, r, false)
				r.count(15*time.Second, 200)
				time.Sleep(time.Second) // End-of-RIB follows the routes
				lost := r.watch()
				must(t, first.Process.Signal(sig))
				_ = first.Wait()
				time.Sleep(2 * time.Second)
				runAgent(t, r, true)
				eventually(t, 15*time.Second, "both sessions are up again", r.established(2))
				never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
					n := len(r.routes())
					return lost() > 0 || n != 200, fmt.Sprintf("%d lost, %d there", lost(), n)
				})
			})
		}
	}
}

func TestAProcessThatStopsWithdrawsEverythingAndSaysWhy(t *testing.T) {
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := d.start(newRouter(t), neighbour{lines: d.lines})
			p := runAgent(t, r, false)
			r.count(15*time.Second, 200)
			must(t, p.Process.Signal(syscall.SIGUSR1))
			begin := time.Now()
			r.count(5*time.Second, 0)
			t.Log("withdrawn after", time.Since(begin))
			_ = p.Wait()
			eventually(t, 5*time.Second, "the router knows the reason", func() (bool, string) {
				said := r.farewell()
				return strings.Contains(said, "moved to another rack"), said
			})
		})
	}
}
