package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/preview"
)

// simulateFlags are the flags of the command.
type simulateFlags struct {
	cluster clusterFlags
	against string
	fail    []string
	each    string
	output  string
}

func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate [EDIT...]",
		Short: "Tell what an edit or a failure would make unreachable",
		Long: `Tell what an edit, a failure, or both together would make unreachable: VIPs with their Services,
pods of one rack for those of another; which VIPs would be left with one machine or one router; and
how the next hops that routers have for VIPs would shift.

EDIT is a file, a folder, - for the standard input, or the word cluster for what is in force there;
none: what is in force. It is held against what --against names. With a cluster there, Services, their
endpoints and Nodes count as they are now, and a machine that nothing is heard of does not. With
files there, Services are not known: two addresses stand for each pool and family, as of Services
that every machine can serve.

A VIP on a link goes to the next machine in its order that can answer for it; the gateway is taken
to answer, and who has a VIP at the moment to be the first in that order.

A machine fails with the endpoints on it, a rack with its machines and its own routers. Nothing fails
anywhere: it is worked out with what the agents plan with. How routers reach each other is theirs,
and so is whether a session comes up. With a CNI that routes pods, nothing is told of pods.

Exit codes: 0 nothing differs, 1 something does (with --each: some failure makes something unreachable), 2 error.`,
		Example: `  plinth simulate --fail router/tor-r01
  plinth simulate --each machine
  plinth simulate -o markdown inventory/ --fail rack/r01
  plinth simulate --against inventory/ --each rack`,
		Args: usage(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args) },
	}
	cmd.Flags().StringVar(&flags.against, "against", inCluster, "what is in force: the word cluster, a file, a folder, or -")
	cmd.Flags().StringSliceVar(&flags.fail, "fail", nil, "what fails, comma separated: rack/NAME, router/NAME, machine/NAME")
	cmd.Flags().StringVar(&flags.each, "each", "", "rack, router or machine: a table of what the failure of each would take away")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "text", "text, json or markdown")
	flags.cluster.addTo(cmd)
	return cmd
}

// run answers, and says by its error whether anything differs.
func (f simulateFlags) run(cmd *cobra.Command, edits []string) error {
	if !slices.Contains([]string{"text", "json", "markdown"}, f.output) {
		return exit{exitUsage, fmt.Errorf("-o %s: want text, json or markdown", f.output)}
	}
	if f.each != "" && !slices.Contains(failureKinds, f.each) {
		return exit{exitUsage, fmt.Errorf("--each %s: want rack, router or machine", f.each)}
	}
	sim, err := f.read(cmd, edits)
	if err != nil {
		return err
	}
	var bad bool
	if f.each != "" {
		table := sim.each(f.each)
		bad = slices.ContainsFunc(table.Rows, eachRow.loses)
		err = table.write(cmd.OutOrStdout(), f.output)
	} else {
		result := sim.result()
		bad = !result.Empty()
		err = result.write(cmd.OutOrStdout(), f.output)
	}
	return ended(!bad, err)
}

// simulation is all that a question to the preview is made of.
type simulation struct {
	before, after *inventory.Inventory
	cluster       preview.Cluster
	failed        preview.Failures
	notKnown      []string // what the answer cannot say, or leaves out
}

func (f simulateFlags) read(cmd *cobra.Command, edits []string) (sim simulation, err error) {
	if sim.before, err = load(cmd, f.cluster, []string{f.against}); err != nil {
		return sim, err
	}
	if f.against != inCluster {
		if sim.before, err = admitted(cmd, sim.before, nil); err != nil {
			return sim, err
		}
	}
	sim.after = sim.before
	if len(edits) > 0 && !slices.Equal(edits, []string{inCluster}) {
		proposed, err := load(cmd, f.cluster, edits)
		if err != nil {
			return sim, err
		}
		if sim.after, err = admitted(cmd, proposed, sim.before); err != nil {
			return sim, err
		}
	}
	if sim.failed, err = failures(f.fail, sim.after); err != nil {
		return sim, err
	}
	f.readCluster(cmd, &sim)
	return sim, nil
}

// readCluster reads the Services of a cluster, or takes some as examples.
func (f simulateFlags) readCluster(cmd *cobra.Command, sim *simulation) {
	if f.against == inCluster {
		now, err := f.cluster.now(cmd.Context())
		if err == nil {
			sim.cluster = *now
			if silent := now.SilentNodes(); len(silent) > 0 {
				sim.notKnown = append(sim.notKnown, fmt.Sprintf("nothing is heard of %s: counted as if not there", shortened(silent, "Node")))
			}
			return
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", err) // who may read ConfigMaps alone learns the rest
	}
	sim.cluster.Services = preview.SampleServices(sim.before)
	sim.notKnown = append(sim.notKnown, "Services, their endpoints and Nodes: the first and the last address of each pool stand for a Service that every machine can serve")
}

// admitted is an edit as it would be taken up with another inventory in force; nil: none is.
func admitted(cmd *cobra.Command, proposed, inForce *inventory.Inventory) (*inventory.Inventory, error) {
	inv, problems := edit.Admit(proposed.Uncarved(), inForce)
	if len(problems) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
	}
	if inv == nil {
		return nil, exit{code: exitError}
	}
	return inv, nil
}

// failureKinds are the kinds of things that can fail.
var failureKinds = []string{"rack", "router", "machine"}

// failures parses the values of --fail.
func failures(words []string, inv *inventory.Inventory) (all preview.Failures, err error) {
	var problems []error
	for _, word := range words {
		kind, name, _ := strings.Cut(strings.TrimSpace(word), "/")
		if !slices.Contains(failureKinds, kind) || name == "" {
			return all, exit{exitUsage, fmt.Errorf("--fail %q: want rack/NAME, router/NAME or machine/NAME", word)}
		}
		names := namesOf(inv, kind)
		if !slices.Contains(names, name) {
			problems = append(problems, noSuch(kind, name, names))
			continue
		}
		all = all.And(failureOf(inv, kind, name))
	}
	return all, errors.Join(problems...)
}

// noSuch returns the error on a name that the inventory does not have, with the one that was probably meant.
func noSuch(kind, name string, names []string) error {
	err := fmt.Errorf("--fail %s/%s: the inventory has no such %s", kind, name, kind)
	if near := document.Nearest(name, names); near != "" {
		err = fmt.Errorf("%w; did you mean %s/%s?", err, kind, near)
	}
	return err
}

// namesOf are the names of all of a kind, in the inventory's order.
func namesOf(inv *inventory.Inventory, kind string) (names []string) {
	switch kind {
	case "rack":
		for _, r := range inv.Racks {
			names = append(names, r.Name)
		}
	case "router":
		for _, r := range inv.Routers {
			names = append(names, r.Name)
		}
	case "machine":
		for m := range inv.Machines() {
			names = append(names, m.Name)
		}
	}
	return names
}

func failureOf(inv *inventory.Inventory, kind, name string) preview.Failures {
	switch kind {
	case "rack":
		return preview.FailureOfRack(inv, name)
	case "router":
		return preview.Failures{Routers: map[string]bool{name: true}}
	}
	return preview.Failures{Machines: map[string]bool{name: true}}
}

// result returns the differences that the simulation found, as they are printed.
func (s simulation) result() simulated {
	return simulated{preview.Compare(preview.Simulate(s.before, s.after, s.cluster, s.failed)), s.notKnown}
}

// each tells of every failure of a kind what it takes away, after the edit and the failures that
// are assumed anyway.
func (s simulation) each(kind string) eachTable {
	table := eachTable{Kind: kind, NotKnown: s.notKnown}
	_, was := preview.Simulate(s.before, s.after, s.cluster, s.failed)
	for _, name := range namesOf(s.after, kind) {
		is := was.With(failureOf(s.after, kind, name))
		table.Rows = append(table.Rows, rowOf(kind+"/"+name, preview.Compare(was, is)))
	}
	return table
}

// writeLines prints lines, and ends with an error if one cannot be written.
func writeLines(w io.Writer, lines []string) error {
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
