package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"plinth.dev/plinth/test/lab"
)

// story is one telling: the lab that it happens on, and what later steps need of
// earlier ones.
type story struct {
	*teller
	lab       *lab.Lab
	inventory []string // documents in force
}

// step is a part of a story.
type step struct {
	name string
	do   func(context.Context) error
}

// Run starts a lab, tells the story of a datacenter on it, and removes the lab again, whatever
// happened. Its last line is "demo: OK" if and only if all went well.
func Run(ctx context.Context, t lab.Topology, o lab.Options, out io.Writer) error {
	return run(ctx, t, o, out, (*story).datacenter)
}

// RunHome is Run for the story of a home, whose router speaks no BGP.
func RunHome(ctx context.Context, t lab.Topology, o lab.Options, out io.Writer) error {
	return run(ctx, t, o, out, (*story).home)
}

func run(ctx context.Context, t lab.Topology, o lab.Options, out io.Writer, steps func(*story, lab.Topology, lab.Options) []step) error {
	s := &story{teller: newTeller(out), inventory: []string{lab.Inventory(t)}}
	o.Progress = indented{out}
	err := tell(ctx, steps(s, t, o))
	s.say("")
	s.say("removing all of it: namespaces, processes, links")
	// Also when ctx has ended: somebody pressed Ctrl-C.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	name := o.Name
	if name == "" {
		name = lab.DefaultName
	}
	if err := errors.Join(err, lab.Down(cleanup, name)); err != nil {
		return err
	}
	s.fact("the whole demo", "%.0f s", time.Since(s.begun).Seconds())
	s.summary()
	fmt.Fprintln(out, "\ndemo: OK")
	return nil
}

func (s *story) datacenter(t lab.Topology, o lab.Options) []step {
	return []step{
		{"building the datacenter", func(ctx context.Context) error { return s.build(ctx, t, o) }},
		{"taking up the inventory", s.takeUp},
		{"nodes", s.nodes},
		{"service", s.service},
		{"pods", s.pods},
		{"machine killed", s.kill},
		{"inventory edited", s.edit},
		{"inventory with a mistake", s.mistake},
		{"service deleted", s.remove},
	}
}

func tell(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// indented writes the lab's progress as part of the story.
type indented struct{ out io.Writer }

// Write indents one line.
func (i indented) Write(p []byte) (int, error) {
	if _, err := fmt.Fprintf(i.out, "   %s", p); err != nil {
		return 0, err
	}
	return len(p), nil
}
