package nodes

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

// many is an inventory of racks of forty machines, dual-stack.
func many(machines int) string {
	var b strings.Builder
	b.WriteString("  racks:\n")
	for i := range machines {
		if i%40 == 0 {
			fmt.Fprintf(&b, "    - name: r%03d\n      row: a\n      machines:\n", i/40)
		}
		fmt.Fprintf(&b, "        - {name: %s, type: m, unit: %d, addresses: [172.16.%d.%d, \"2001:db8::%x:%x\"]}\n",
			machine(i), i%40+1, i/40, i%40+11, i/40, i%40+11)
	}
	return strings.Replace(document(b.String()), "address: 10.10.1.1", "address: 192.168.255.1", 1)
}

func machine(i int) string { return fmt.Sprintf("m%04d", i) }

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
		slow = initialise(b, 200, func(c *cluster) { c.Run(sample, c.sampleFlags()...) })
	})
	b.Run("sample with 1000 QPS and 16 workers", func(b *testing.B) {
		fast = initialise(b, 1000, func(c *cluster) {
			c.Run(sample, append(c.sampleFlags(), "--kube-api-qps=1000", "--kube-api-burst=1000", "--concurrent-node-syncs=16")...)
		})
	})
	b.Run("plinth", func(b *testing.B) {
		plinth := initialise(b, 1000, func(c *cluster) {
			c.edit(many(1000))
			c.start()
			c.status("ready", "true")
		})
		b.ReportMetric(plinth/slow, "x-sample")
		b.ReportMetric(plinth/fast, "x-fast-sample")
	})
}

func (c *cluster) sampleFlags() []string {
	return []string{"--kubeconfig=" + c.Kubeconfig, "--secure-port=0", "--leader-elect=false"}
}

// initialise creates Nodes and returns how many a second were initialised.
func initialise(b *testing.B, count int, start func(*cluster)) (rate float64) {
	for b.Loop() {
		c := newCluster(b, apiserver.Options{})
		start(c)
		before := len(c.Writes())
		begun := time.Now()
		c.createNodes(count)
		c.Eventually(5*time.Minute, "all nodes are initialised", c.allInitialised(count))
		rate = float64(count) / time.Since(begun).Seconds()
		time.Sleep(2 * time.Second) // Events and what follows
		writes := 0
		for _, w := range c.Writes()[before:] {
			if strings.Contains(w.Agent, "sample") || w.Agent == filepath.Base(ccm) {
				writes++
			}
		}
		b.ReportMetric(rate, "nodes/s")
		b.ReportMetric(float64(writes)/float64(count), "writes/node")
	}
	return rate
}

func (c *cluster) createNodes(count int) {
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < count; i += 8 {
				n := &v1.Node{}
				n.Name = machine(i)
				n.Spec.Taints = []v1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: v1.TaintEffectNoSchedule}}
				n.Status.Conditions = []v1.NodeCondition{ready(true)}
				n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: n.Name}}
				if _, err := c.Client.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{FieldManager: "kubelet"}); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
