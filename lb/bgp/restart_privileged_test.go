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
	speaker := NewSpeaker(Options{Log: logger(t)})
	config := configOf(plan(r.session4(), hundred("203.0.113.%d/32")...), plan(r.session6(), hundred("2001:db8:113::%x/128")...))
	config.Restarting = os.Getenv(asFollow) != ""
	if profile := os.Getenv(asBFD); profile != "" {
		must(t, json.Unmarshal([]byte(profile), &pace))
		for i := range config.Sessions {
			config.Sessions[i] = withFastBFD(config.Sessions[i])
		}
	}
	must(t, speaker.Set(t.Context(), config))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGUSR1)
	if <-stop == syscall.SIGTERM {
		must(t, speaker.Leave(context.Background()))
	} else {
		must(t, speaker.Stop(context.Background(), "moved to another rack"))
	}
}

// withPace is the variable by which an agent process uses BFD.
func withPace() string {
	b, _ := json.Marshal(pace)
	return asBFD + "=" + string(b)
}

// hundred returns a hundred prefixes.
func hundred(format string) (ps []string) {
	for i := range 100 {
		ps = append(ps, fmt.Sprintf(format, i+1))
	}
	return ps
}

// runAgent starts a process with a Speaker; follows: after another.
func runAgent(t testing.TB, r *router, follows bool, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAgentProcess$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", asAgent, r.n))
	cmd.Env = append(cmd.Env, env...)
	if follows {
		cmd.Env = append(cmd.Env, asFollow+"=1")
	}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// dialects holds the routers that tests run with: how each starts, and its lines for graceful restart.
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
				router := d.start(newRouter(t), neighbour{lines: d.lines})
				first := runAgent(t, router, false)
				router.count(15*time.Second, 200)
				time.Sleep(time.Second) // End-of-RIB follows the routes
				lost := router.watch()
				must(t, first.Process.Signal(sig))
				_ = first.Wait()
				time.Sleep(2 * time.Second)
				runAgent(t, router, true)
				eventually(t, 15*time.Second, "both sessions are up again", router.established(2))
				never(t, 4*time.Second, "the router lost routes", func() (bool, string) {
					n := len(router.routes())
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
			router := d.start(newRouter(t), neighbour{lines: d.lines})
			cmd := runAgent(t, router, false)
			router.count(15*time.Second, 200)
			must(t, cmd.Process.Signal(syscall.SIGUSR1))
			begin := time.Now()
			router.count(5*time.Second, 0)
			t.Log("withdrawn after", time.Since(begin))
			_ = cmd.Wait()
			eventually(t, 5*time.Second, "the router knows the reason", func() (bool, string) {
				shown := router.lastClose()
				return strings.Contains(shown, "moved to another rack"), shown
			})
		})
	}
}
