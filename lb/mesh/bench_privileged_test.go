//go:build privileged

package mesh

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkIdle is what a process of a mesh costs in which nothing happens, and how often one
// loses another without a reason. An operation is a second.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{5, 32} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			all := lan(b, n, nil)
			allUp(all, 0)
			before := all[0].cpu()
			b.ResetTimer()
			<-time.After(time.Duration(b.N) * time.Second)
			b.StopTimer()
			b.ReportMetric(float64((all[0].cpu()-before).Microseconds())/float64(b.N)/1000, "cpu-ms/s")
			b.ReportMetric(float64(all[0].memory())/1024, "rss-MiB")
			b.ReportMetric(float64(losses(all)), "losses")
		})
	}
}

func losses(all []*machine) (n uint64) {
	for _, m := range all {
		m.mu.Lock()
		for _, s := range m.all[len(m.all)-1].State[0].Machines {
			n += s.Losses
		}
		m.mu.Unlock()
	}
	return n
}

func (m *machine) proc(file string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", m.cmd.Process.Pid, file))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

// cpu is the time that the process ran for (proc(5): utime and stime, in hundredths).
func (m *machine) cpu() time.Duration {
	_, rest, _ := strings.Cut(m.proc("stat"), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is the resident set in KiB.
func (m *machine) memory() int {
	_, rest, _ := strings.Cut(m.proc("status"), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kib
}
