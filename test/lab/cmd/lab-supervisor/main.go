// Command lab-supervisor keeps a program of the lab running.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plinth.dev/plinth/test/lab/supervisor"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab-supervisor:", err)
		os.Exit(1)
	}
}

// run takes a file that holds a supervisor.Program, as JSON.
func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: lab-supervisor FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var p supervisor.Program
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return supervisor.Run(ctx, p)
}
