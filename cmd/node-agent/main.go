// Command plinth-agent runs on every node: it announces VIPs and pod CIDRs over
// BGP, and keeps the routes to the pods of other nodes in the kernel.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		if !errors.As(err, &loggedError{}) {
			fmt.Fprintln(os.Stderr, "plinth-agent:", err)
		}
		os.Exit(exitCode(err))
	}
}
