// Command plinth-agent runs on every node: it announces VIPs and pod CIDRs over
// BGP, and keeps the routes to the pods of other nodes in the kernel.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "plinth-agent:", err)
		os.Exit(exitCode(err))
	}
}
