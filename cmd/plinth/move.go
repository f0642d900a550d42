package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/provider/installation"
)

func newMoveCommand() *cobra.Command {
	var cluster clusterFlags
	var to string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "move --to NAMESPACE",
		Short: "Move an installation to another namespace",
		Long: `Move an installation to another namespace: what is in force, what is in quarantine, the inventory's
ConfigMaps that are not Helm's, and the Secrets that it names.

Stop the controller first: it is waited for. From then on none leads in the old namespace, for its
lease is held by the move. What is copied there stays, so that agents run on until you replace them.
Then install Plinth in the new namespace. Where the command is interrupted, run it again.`,
		Example: "  kubectl -n kube-system scale deployment plinth-cloud-controller-manager --replicas=0\n  plinth move --to plinth-system",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return exit{exitUsage, errors.New("--to is missing: the namespace to move to")}
			}
			client, from, err := cluster.installation(cmd.Context())
			if err != nil {
				return err
			}
			move := installation.Move{
				Client: client, From: from, To: to, Patience: patience,
				Say: func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) },
			}
			if err := move.Run(cmd.Context()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "moved from namespace %s: install Plinth in %s now\n", from, to)
			return err
		},
	}
	cluster.addTo(cmd)
	cmd.Flags().StringVar(&to, "to", "", "namespace to move to; it is made where there is none")
	cmd.Flags().DurationVar(&patience, "patience", time.Minute, "how long to wait for the controller in the old namespace to end")
	return cmd
}
