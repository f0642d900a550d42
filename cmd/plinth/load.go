package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
)

// read reads files and folders; "-" is the standard input.
func read(cmd *cobra.Command, paths []string) ([]inventory.Document, error) {
	var docs []inventory.Document
	for _, path := range paths {
		if path == "-" {
			text, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return nil, fmt.Errorf("standard input: %w", err)
			}
			docs = append(docs, inventory.Document{Source: "-", Data: text})
			continue
		}
		more, err := source.Read(path)
		if err != nil {
			return nil, err
		}
		docs = append(docs, more...)
	}
	return docs, nil
}

// load reads an inventory that is good enough to work with. All problems go to
// the standard error output, one a line.
func load(cmd *cobra.Command, paths []string) (*inventory.Inventory, error) {
	docs, err := read(cmd, paths)
	if err != nil {
		return nil, err
	}
	inv, problems := inventory.Load(docs...)
	if len(problems) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
	}
	if inv == nil {
		return nil, exit{code: exitError}
	}
	return inv, nil
}
