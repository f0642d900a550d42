// Package onlink tells what Plinth does at home as stories on a whole lab: three machines, a phone and a laptop on one
// subnet, whose router speaks no BGP.
package onlink

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"plinth.dev/plinth/test/lab"
)

var proxyMode = flag.String("proxy-mode", "nftables", "mode of kube-proxy: nftables or iptables")

func TestMain(m *testing.M) {
	flag.Parse()
	ctx := context.Background()
	for _, name := range []string{homeName, bothName} { // what an earlier run that was killed has left
		if err := lab.Down(ctx, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if l, err := lab.Open(homeName, nil); err == nil && code != 0 {
		logs := filepath.Join(os.TempDir(), "plinth-e2e-logs-home")
		fmt.Fprintln(os.Stderr, "logs of all programs:", logs, l.SaveLogs(logs))
	}
	if err := lab.Down(ctx, homeName); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
