package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/buildinfo"
)

// answerVersion makes --version answer with our own version. The framework's answer is the
// version of the Kubernetes modules, which make sets. It cannot be ours: it is what feature
// gates are decided by as well, so each release of ours would turn some on or off.
func answerVersion(command *cobra.Command) {
	runs := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		// Any other value is a setting of the framework.
		if asked := cmd.Flags().Lookup("version").Value.String(); asked == "true" || asked == "raw" {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Name(), buildinfo.Version)
			return err
		}
		return runs(cmd, args)
	}
}
