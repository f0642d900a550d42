package bench

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// rounds is how often each contestant of BenchmarkInitialisation runs. They take
// turns, so that a machine that is busy for a while is so for all of them.
const rounds = 5

// BenchmarkInitialisation measures how fast Nodes that are created at once are
// initialised ("nodes/s", the median of the rounds) and with how many writes
// each, Events and all else that the program writes included, by the framework's
// sample with its own defaults, by the same with high limits, and by Plinth as it
// comes. All have the same rights. "x-sample" and "x-fast-sample" are the medians of Plinth's rate divided
// by theirs of the same round.
func BenchmarkInitialisation(b *testing.B) {
	sample := filepath.Join(b.TempDir(), "sample")
	if out, err := exec.Command("go", "build", "-o", sample, "./sample").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	contestants := []*contestant{
		{name: "sample", agent: "sample", nodes: 200, start: func(c *apiserver.Controller) { c.Run(sample, sampleFlags(c)...) }},
		{name: "fast-sample", agent: "sample", nodes: 1000, start: func(c *apiserver.Controller) {
			c.Run(sample, append(sampleFlags(c), "--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-node-syncs=16")...)
		}},
		{name: "plinth", agent: apiserver.ControllerName, nodes: 1000, start: func(c *apiserver.Controller) {
			c.EditInventory(apiserver.ManyMachines(1000), nil)
			c.Start()
			c.AwaitStatus("ready", "true")
		}},
	}
	for b.Loop() {
		for range rounds {
			for _, each := range contestants {
				each.initialise(b)
			}
		}
	}
	slow, fast, plinth := contestants[0], contestants[1], contestants[2]
	b.ReportMetric(median(ratios(plinth.rates, slow.rates)), "x-sample")
	b.ReportMetric(median(ratios(plinth.rates, fast.rates)), "x-fast-sample")
	for _, each := range contestants {
		b.Logf("%s: %.1f nodes/s, %.3f writes/node", each.name, each.rates, each.writes)
		b.ReportMetric(median(each.rates), each.name+"-nodes/s")
		b.ReportMetric(slices.Max(each.writes), each.name+"-writes/node")
	}
}

// contestant is a controller manager that initialises Nodes.
type contestant struct {
	name  string
	agent string // its user agent
	nodes int    // how many it is given
	start func(*apiserver.Controller)

	rates  []float64 // Nodes a second, by round
	writes []float64 // for each Node, by round
}

func sampleFlags(c *apiserver.Controller) []string {
	return []string{"--kubeconfig=" + c.Limited, "--secure-port=0", "--leader-elect=false"}
}

// initialise runs one round: a new cluster, and all Nodes created at once.
func (c *contestant) initialise(b *testing.B) {
	b.Helper()
	cluster := apiserver.NewController(b, apiserver.Options{Fresh: true})
	defer cluster.Stop()
	c.start(cluster)
	before := len(cluster.Writes())
	begun := time.Now()
	cluster.CreateNodes(c.nodes)
	cluster.AwaitInitialised(5*time.Minute, c.nodes)
	c.rates = append(c.rates, float64(c.nodes)/time.Since(begun).Seconds())
	c.writes = append(c.writes, float64(len(cluster.Quiet(c.agent, before)))/float64(c.nodes))
}

// ratios divides what one measured by what another did in the same round.
func ratios(a, b []float64) (out []float64) {
	for i := range a {
		out = append(out, a[i]/b[i])
	}
	return out
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
