package main

import (
	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory/document"
)

func newSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of an inventory, for editors",
		Long: `Print the JSON Schema (2020-12) of an inventory, for editors.

An editor with the YAML language server completes and checks an inventory whose
first line is

  # yaml-language-server: $schema=plinth.schema.json

The schema knows keys and forms. What one value means for another is known to
plinth validate alone.`,
		Example: "  plinth schema > plinth.schema.json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(document.Schema())
			return err
		},
	}
}
