// Command plinth-lab starts and removes labs, and tells the story of Plinth on one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/demo"
)

const usage = `plinth-lab build|up|down|restart|demo|demo-home|sweep [--name NAME] [--shape two-racks|homelab|two-routers|home]

  build  build the control plane, where it is not there yet; with --real also what
         machines with a real kubelet run, with --upstream Kubernetes' own tests
  up     start a lab with Plinth on it, and leave it running
  down   remove every trace of it
  restart ccm|MACHINE...  start the controller, or the agent of a machine, whatever became of it
  demo   start a lab, show Plinth at work on it, and remove it
  demo-home  the same for a home, whose router speaks no BGP
  sweep  remove what runs of tests that were killed have left
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
	shape := flags.String("shape", "two-racks", "two-racks, homelab, two-routers or home")
	real := flags.Bool("real", false, "machines with a kubelet, containerd and pods in containers")
	upstream := flags.Bool("upstream", false, "build Kubernetes' own tests, too")
	if err := flags.Parse(args[1:]); err != nil || (flags.NArg() > 0) != (args[0] == "restart") {
		return errUsage
	}
	topology, ok := map[string]func() lab.Topology{
		"two-racks": lab.TwoRacks, "homelab": lab.Homelab, "two-routers": lab.TwoRouters,
		"home": func() lab.Topology { return lab.Home(3) },
	}[*shape]
	if !ok {
		return errUsage
	}
	options := lab.Options{Name: *name, Progress: os.Stdout}
	switch args[0] {
	case "build":
		return build(ctx, *real, *upstream)
	case "up":
		return up(ctx, topology(), options)
	case "down":
		return lab.Down(ctx, *name)
	case "restart":
		return restart(ctx, *name, flags.Args())
	case "sweep":
		return lab.Sweep(ctx, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	case "demo":
		return tell(ctx, topology(), options, demo.Run)
	case "demo-home":
		return tell(ctx, lab.Home(3), options, demo.RunHome)
	}
	return errUsage
}

func build(ctx context.Context, real, upstream bool) error {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	_, err := components.Find(ctx, say)
	if err == nil && (real || upstream) {
		_, err = components.FindNode(ctx, say)
	}
	if err == nil && upstream {
		_, err = components.FindUpstream(ctx, say)
	}
	return err
}

// demoName is the lab of the demo, beside one that somebody may have left up.
const demoName = "demo"

func tell(ctx context.Context, t lab.Topology, o lab.Options, story func(context.Context, lab.Topology, lab.Options, io.Writer) error) error {
	if o.Name == lab.DefaultName {
		o.Name = demoName
	}
	// What an earlier demo that was killed has left.
	if err := lab.Down(ctx, o.Name); err != nil {
		return err
	}
	return story(ctx, t, o, os.Stdout)
}

// up starts a lab, unless it runs already. One that is broken is made anew.
func up(ctx context.Context, t lab.Topology, o lab.Options) error {
	if l, err := lab.Open(o.Name, o.Progress); err == nil && l.WaitReady(ctx, 5*time.Second) == nil {
		fmt.Printf("lab %s is up already\n", o.Name)
		return nil
	}
	if err := lab.Down(ctx, o.Name); err != nil {
		return err
	}
	l, err := lab.Start(ctx, t, o)
	if err != nil {
		return err
	}
	if err := l.StartPlinth(ctx, lab.Inventory(t)); err != nil {
		return err
	}
	if err := l.WaitFabric(ctx); err != nil { // so that plinth status has nothing to say
		return err
	}
	if err := handOver(l.Dir()); err != nil {
		return err
	}
	fmt.Printf("\nlab %s is up:\n", o.Name)
	fmt.Printf("  export KUBECONFIG=%s\n  %s/bin/kubectl get nodes\n  ip netns exec %s curl http://VIP/\n", l.Kubeconfig(), l.Dir(), l.Namespace("client"))
	return nil
}

// restart starts the controller or agents of a lab that runs.
func restart(ctx context.Context, name string, programs []string) error {
	l, err := lab.Open(name, os.Stdout)
	if err != nil {
		return err
	}
	for _, p := range programs {
		if p == "ccm" {
			err = l.RestartCCM(ctx)
		} else {
			err = errors.Join(l.StopAgent(ctx, p, syscall.SIGTERM), l.StartAgent(ctx, p))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return handOver(l.Dir())
}

// handOver gives the lab's files to the person who called sudo.
func handOver(folder string) error {
	uid, gid, ok := components.Caller()
	if !ok {
		return nil
	}
	return filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a program of the lab took it away meanwhile
		}
		return errors.Join(err, os.Lchown(file, uid, gid))
	})
}
