package onlink

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"plinth.dev/plinth/test/bench/metallb"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
)

var (
	labName  = flag.String("lab", "onlink", "name of the lab")
	machines = flag.Int("machines", 3, "of the home")
	vips     = flag.Int("vips", 10, "one a Service")
	cuts     = flag.Int("cuts", 20, "how often a machine's power is cut")
	ipv6     = flag.Bool("ipv6", false, "VIPs of IPv6 in place of IPv4")
	only     = flag.String("only", "", "names of contenders, comma separated: plinth, metallb; else all")
	stories  = flag.String("stories", "", "what is measured, comma separated: cuts, ends, partition, conflict, asked; else these; or idle, hostile, many, split")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of what is drawn at random")
	splitFor = flag.Duration("split", time.Minute, "for how long homes are cut apart in the story split, each")
	homes    = flag.String("homes", "2,4,5", "machines of the homes of the story split")
	idle     = flag.Duration("idle", time.Minute, "for how long nothing happens in the story idle")
	agents   = flag.Int("agents", 2, "of the 32 machines of the story many; the others only watch each other")
	watcher  = flag.String("watcher", "", "be a machine of the story many without an agent: its address and those of all, comma separated")
)

// wanted reports whether a name is in a list of names, of which none stands for all.
func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

// isNamed reports whether a name is in a list of names.
func isNamed(list, name string) bool { return list != "" && wanted(list, name) }

// splitHomes are the machines of each home of the story split.
func splitHomes() (all []int) {
	for _, text := range strings.Split(*homes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 {
			panic(fmt.Sprintf("-homes %q: want numbers above 1", *homes))
		}
		all = append(all, n)
	}
	return all
}

// programs is the folder of MetalLB's programs and resources.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	if *watcher != "" {
		watch(*watcher)
		return
	}
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
	if err == nil && wanted(*only, "metallb") {
		err = metallb.Build(programs)
	}
	if err == nil {
		err = lab.Down(context.Background(), *labName) // what an earlier run that was killed has left
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if l, err := lab.Open(*labName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-bench-logs-"+*labName)
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
	}
	if err := lab.Down(context.Background(), *labName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
