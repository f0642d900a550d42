package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/source"
)

// errInventory is an inventory that would not be taken up. Its problems have been printed.
var errInventory = errors.New("the inventory would not be taken up")

// newValidateCommand checks an inventory and ends. The chart runs it before it installs
// anything, since the controller's image is all that is there by then.
func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:           "validate PATH...",
		Short:         "Check an inventory in files or folders, and do nothing else",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, paths []string) error {
			var proposed source.Edit
			for _, path := range paths {
				read, err := source.Read(path)
				if err != nil {
					return err
				}
				proposed = proposed.Join(read)
			}
			inv, problems := document.Load(proposed.Documents...)
			if inv != nil {
				_, carving := edit.Admit(inv, nil)
				problems = append(problems, carving...)
			}
			problems = append(proposed.Problems, problems...)
			if len(problems) > 0 {
				fmt.Fprintln(cmd.OutOrStdout(), problems)
			}
			if problems.Err() != nil || inv == nil {
				return errInventory
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "valid: inventory %s\n", inv.Name)
			return err
		},
	}
}
