package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// BenchmarkInitialisation measures how fast Nodes that are created at once are
// initialised, and with how many writes each, by the framework's sample with
// its own defaults, by the same with high limits, and by Plinth as it comes.
func BenchmarkInitialisation(b *testing.B) {
	sample := filepath.Join(b.TempDir(), "sample")
	if out, err := exec.Command("go", "build", "-o", sample, "./sample").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var slow, fast float64
	b.Run("sample", func(b *testing.B) {
		slow = initialise(b, 200, func(c *apiserver.Controller) { c.Run(sample, sampleFlags(c)...) })
	})
	b.Run("sample with 1000 QPS and 16 workers", func(b *testing.B) {
		fast = initialise(b, 1000, func(c *apiserver.Controller) {
			c.Run(sample, append(sampleFlags(c), "--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-node-syncs=16")...)
		})
	})
	b.Run("plinth", func(b *testing.B) {
		plinth := initialise(b, 1000, func(c *apiserver.Controller) {
			c.EditInventory(apiserver.ManyMachines(1000), nil)
			c.Start()
			c.AwaitStatus("ready", "true")
		})
		b.ReportMetric(plinth/slow, "x-sample")
		b.ReportMetric(plinth/fast, "x-fast-sample")
	})
}

func sampleFlags(c *apiserver.Controller) []string {
	return []string{"--kubeconfig=" + c.Kubeconfig, "--secure-port=0", "--leader-elect=false"}
}

// initialise creates Nodes and returns how many a second were initialised.
func initialise(b *testing.B, count int, start func(*apiserver.Controller)) (rate float64) {
	for b.Loop() {
		c := apiserver.NewController(b, apiserver.Options{})
		start(c)
		before := len(c.Writes())
		begun := time.Now()
		c.CreateNodes(count)
		c.AwaitInitialised(5*time.Minute, count)
		rate = float64(count) / time.Since(begun).Seconds()
		time.Sleep(2 * time.Second) // Events and what follows
		writes := 0
		for _, w := range c.Writes()[before:] {
			if strings.Contains(w.Agent, "sample") || w.Agent == apiserver.ControllerName {
				writes++
			}
		}
		b.ReportMetric(rate, "nodes/s")
		b.ReportMetric(float64(writes)/float64(count), "writes/node")
	}
	return rate
}
