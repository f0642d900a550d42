package main

import (
	"errors"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/doctor/machine/probe"
	"plinth.dev/plinth/inventory"
)

// checkup are the flags of doctor machine.
type checkup struct {
	cluster   clusterFlags
	paper     paper
	inventory []string
	machine   string
}

func newDoctorMachineCommand() *cobra.Command {
	var given checkup
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Find what stands in the way on the machine that it runs on, and what mends it",
		Long: `Find what stands in the way on the machine that it runs on, as root, before Plinth is there and after: settings
of the kernel, ports that other programs hold, other BGP speakers, VIPs that are left on interfaces, hosts that
have addresses of pools, routers that do not answer, and what the kernel lacks. Each finding has its name, which
plinth explain knows, and what mends it: commands to run on that machine, as root. Nothing is changed.

The machine is that of the inventory with an address of this one, or with its name. Without an inventory only
what needs none is looked at. On links it asks who has the addresses of pools, in at most ten frames a second: of
a pool with more than 64, for 64 that are spread over it, in about 13 seconds. It connects to routers, unless a BGP
speaker runs here that has a session with them or may be about to.

With --save-bundle what was read is written to a file, for whoever is asked for help. With --bundle such a file is
read in place of the machine.

Exit codes: 0 nothing was found, 1 something was, 2 not all could be looked at, and nothing was found in the rest.`,
		Example: `  plinth doctor machine
  plinth doctor machine --inventory inventory.yaml
  plinth doctor machine --inventory cluster --machine w1 -o json
  plinth doctor machine --bundle w1.yaml`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return given.run(cmd) },
	}
	given.cluster.addTo(cmd)
	given.paper.addTo(cmd, "a machine")
	cmd.Flags().StringSliceVar(&given.inventory, "inventory", nil, "file or folder of the inventory, - for the standard input, or the word cluster for what is in force there")
	cmd.Flags().StringVar(&given.machine, "machine", "", "name of the machine in the inventory (default: that with an address of this one, or with its name)")
	return cmd
}

func (c *checkup) run(cmd *cobra.Command) error {
	if c.machine != "" && len(c.inventory) == 0 {
		return exit{exitUsage, errors.New("--machine names one of an inventory: want --inventory")}
	}
	if c.paper.bundle != "" && len(c.inventory) > 0 {
		return exit{exitUsage, errors.New("--bundle takes the place of a machine and of its inventory: want no --inventory")}
	}
	return c.paper.print(cmd, func() (examination, error) {
		facts, err := c.read(cmd)
		return examination{bundle: facts.Bundle, findings: machine.Examine(facts), unread: facts.Unread, notes: facts.Notes}, err
	})
}

// read reads a bundle, or this machine.
func (c *checkup) read(cmd *cobra.Command) (machine.Facts, error) {
	if c.paper.bundle != "" {
		return openBundle(cmd, c.paper.bundle, machine.Open)
	}
	var inv *inventory.Inventory
	if len(c.inventory) > 0 {
		var err error
		if inv, err = load(cmd, c.cluster, c.inventory); err != nil {
			return machine.Facts{}, err
		}
	}
	return probe.Read(cmd.Context(), inv, c.machine)
}
