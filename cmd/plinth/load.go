package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/source"
)

// read reads files and folders; "-" is the standard input, and "cluster" what is in force
// there.
func read(cmd *cobra.Command, cluster clusterFlags, paths []string) (source.Edit, error) {
	var all source.Edit
	for _, path := range paths {
		proposed, err := readOne(cmd, cluster, path)
		if err != nil {
			return all, err
		}
		all = all.Join(proposed)
	}
	return all, nil
}

func readOne(cmd *cobra.Command, cluster clusterFlags, path string) (source.Edit, error) {
	switch path {
	case inCluster:
		inv, err := cluster.inForce(cmd)
		if err != nil {
			return source.Edit{}, err
		}
		return source.Edit{Documents: []document.Document{{Source: path, Data: document.Format(inv)}}}, nil
	case "-":
		text, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return source.Edit{}, fmt.Errorf("standard input: %w", err)
		}
		return source.ReadText(path, text), nil
	}
	return source.Read(path)
}

// load reads an inventory that is good enough to work with. All problems go to
// the standard error output, one a line. What is in force in a cluster is taken as it is
// there, held machines and carved pod CIDRs included.
func load(cmd *cobra.Command, cluster clusterFlags, paths []string) (*inventory.Inventory, error) {
	if slices.Equal(paths, []string{inCluster}) {
		return cluster.inForce(cmd)
	}
	proposed, err := read(cmd, cluster, paths)
	if err != nil {
		return nil, err
	}
	inv, problems := loaded(proposed)
	if len(problems) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
	}
	if inv == nil {
		return nil, exit{code: exitError}
	}
	return inv, nil
}

// loaded is the inventory that an edit makes; nil where a problem is an error, be it of the
// inventory or of a ConfigMap that carries it.
func loaded(proposed source.Edit) (*inventory.Inventory, inventory.Problems) {
	inv, problems := document.Load(proposed.Documents...)
	if proposed.Problems.Err() != nil {
		inv = nil
	}
	return inv, append(proposed.Problems, problems...)
}
