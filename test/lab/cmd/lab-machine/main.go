// Command lab-machine is the first process of a real machine of the lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"plinth.dev/plinth/test/lab/machine"
)

const usage = "usage: lab-machine FILE [inside]"

// inside is the argument of the second start, in the machine's own cgroups.
const inside = "inside"

func main() {
	// Namespaces are entered by a thread, and what it starts is in them.
	runtime.LockOSThread()
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "lab-machine:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New(usage)
	}
	if os.Getpid() != 1 {
		return errors.New("to be started as the first process of new namespaces, by a lab")
	}
	c, err := machine.Read(args[1])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		return machine.Enter(c, args[0], append(args, inside))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return machine.Boot(ctx, c)
}
