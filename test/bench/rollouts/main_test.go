package rollouts

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
)

// labName is the lab of these benchmarks.
const labName = "rollouts"

var (
	rounds    = flag.Int("rounds", 1, "how often the contenders take turns; what they lost is added up")
	requests  = flag.Int("requests", 6000, "connections to each Service in a turn, at least")
	proxyMode = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")
	onReal    = flag.Bool("real", false, "machines with a kubelet and containerd, in BenchmarkRolloutsDualStack")
	routerOS  = flag.String("router", lab.FRR, "what the router of real machines is: frr or bird")
)

// programs is the folder of MetalLB's programs and resources.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	if programs, err = os.MkdirTemp("", "plinth-bench-"); err == nil {
		defer os.RemoveAll(programs)
		err = components.Own(programs)
	}
	if err == nil {
		err = lab.Down(context.Background(), labName) // what an earlier run that was killed has left
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if l, err := lab.Open(labName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-bench-logs")
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
	}
	if err := lab.Down(context.Background(), labName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
