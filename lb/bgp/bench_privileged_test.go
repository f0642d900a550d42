//go:build privileged && timing

package bgp

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// loadFor is the duration of the load, unless PLINTH_BENCH_LOAD sets another.
const loadFor = 10 * time.Minute

// burnCPU loads every CPU five times over until stop is called.
func burnCPU(b *testing.B) (stop func()) {
	b.Helper()
	var all []*exec.Cmd
	for range 5 * runtime.NumCPU() {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must(b, c.Start())
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
}

// first gives the router's daemons precedence over all other programs, as on a machine of
// their own.
func (r *router) first() {
	for _, c := range r.daemon {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Process.Pid))
		must(r.t, err)
		for _, task := range tasks {
			run(r.t, "chrt", "--rr", "--pid", "2", task.Name())
		}
	}
}

// BenchmarkBFDUnderFullLoad keeps BFD sessions of 100 ms x 3 with FRR and BIRD while
// every CPU is loaded, and counts the routes that go. One agent of each is an ordinary
// process, the other has real-time priority, as with --real-time.
func BenchmarkBFDUnderFullLoad(b *testing.B) {
	length := loadFor
	if text := os.Getenv("PLINTH_BENCH_LOAD"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		must(b, err)
	}
	pace = fast
	for b.Loop() {
		lost := map[string]func() int{}
		for dialect, lines := range withBFDOf {
			for _, priority := range []string{"ordinary", "real-time"} {
				router := newRouter(b).withBFD(dialect, lines)
				router.first()
				agent := runAgent(b, router, false, withPace())
				if priority == "real-time" {
					run(b, "chrt", "--all-tasks", "--rr", "--pid", "1", fmt.Sprint(agent.Process.Pid))
				}
				router.count(30*time.Second, 200)
				eventually(b, 30*time.Second, "BFD is up at the router", router.bfdSessions(2))
				lost[dialect+"-"+priority] = router.watch()
			}
		}
		stop := burnCPU(b)
		time.Sleep(length)
		stop()
		for name, n := range lost {
			b.ReportMetric(float64(n()), name+"-routes-lost")
		}
		b.ReportMetric(length.Minutes(), "minutes")
	}
}
