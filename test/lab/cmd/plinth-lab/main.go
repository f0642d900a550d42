// Command plinth-lab starts and removes labs, and tells the story of Plinth on one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plinth.dev/plinth/test/lab"
)

const usage = `plinth-lab up|down|demo [--name NAME] [--shape two-racks|homelab|two-routers]

  up     start a lab with Plinth on it, and leave it running
  down   remove every trace of it
  demo   start a lab, show Plinth at work on it, and remove it
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "plinth-lab:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("plinth-lab", flag.ContinueOnError)
	name := flags.String("name", lab.DefaultName, "tells labs on one machine apart")
	shape := flags.String("shape", "two-racks", "two-racks, homelab or two-routers")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	topology, ok := map[string]func() lab.Topology{
		"two-racks": lab.TwoRacks, "homelab": lab.Homelab, "two-routers": lab.TwoRouters,
	}[*shape]
	if !ok {
		return errUsage
	}
	options := lab.Options{Name: *name, Progress: os.Stdout}
	switch args[0] {
	case "up":
		return up(ctx, topology(), options)
	case "down":
		return lab.Down(ctx, *name)
	}
	return errUsage
}

func up(ctx context.Context, t lab.Topology, o lab.Options) error {
	_, err := lab.Start(ctx, t, o)
	return err
}
