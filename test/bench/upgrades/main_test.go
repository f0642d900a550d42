package upgrades

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/test/lab"
)

// labName is the lab of these benchmarks.
const labName = "upgrades"

var (
	from      = flag.String("from", "", "the older commit")
	rounds    = flag.Int("rounds", 5, "how often all is upgraded, and goes back; what clients lost is added up")
	proxyMode = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")
	routerOS  = flag.String("router", lab.FRR, "what the router is: frr or bird")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	down() // what an earlier run that was killed has left
	code := m.Run()
	if l, err := lab.Open(labName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-bench-logs")
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
	}
	down()
	os.Exit(code)
}

// olderTree is where the older commit is checked out.
var olderTree = filepath.Join(os.TempDir(), "plinth-bench-older")

func down() {
	if err := errors.Join(lab.Down(context.Background(), labName), os.RemoveAll(olderTree)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
