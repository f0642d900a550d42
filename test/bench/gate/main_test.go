package gate

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
)

// labName is the lab of these benchmarks.
const labName = "gate"

var (
	rounds  = flag.Int("rounds", 5, "how often the contenders take turns; the median counts")
	samples = flag.Int("samples", 10, "Services that a contender announces in a turn, one after the other")
	present = flag.Int("present", 3000, "Services that are there when an agent starts")
	proxies = flag.String("proxy-modes", "nftables,iptables", "modes of kube-proxy, comma separated")
	beside  = flag.Int("beside", 0, "Services of type ClusterIP that kube-proxy has rules for besides, while VIPs are new")
	minSync = flag.Duration("min-sync", 0, "kube-proxy's minSyncPeriod; 0: its default, a second")
	local   = flag.Bool("local", false, "Services with externalTrafficPolicy: Local")
	version = flag.String("kubernetes", "", "minor version of Kubernetes (1.35); empty: the newest, or that of "+components.KubernetesVariable)
	older   = flag.String("before", "", "file of an older agent, which takes turns with the others as \"before\"")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	if *version != "" {
		must(os.Setenv(components.KubernetesVariable, *version))
	}
	down() // what an earlier run that was killed has left
	code := m.Run()
	down()
	os.Exit(code)
}

func down() { must(lab.Down(context.Background(), labName)) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func modes() []string { return strings.Split(*proxies, ",") }

// conditions is the end of the name of what is measured of new VIPs: all that differs from what is usual.
func conditions() (name string) {
	if *minSync != 0 {
		name += fmt.Sprintf("/minSync=%v", *minSync)
	}
	if *beside != 0 {
		name += fmt.Sprintf("/beside=%d", *beside)
	}
	if *local {
		name += "/policy=Local"
	}
	if minor := os.Getenv(components.KubernetesVariable); minor != "" {
		name += "/kubernetes=" + minor
	}
	return name
}
