package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/importer"
	"plinth.dev/plinth/inventory/source"
)

// importing are the flags of import.
type importing struct {
	options importer.Options
	cluster clusterFlags
	strict  bool
}

func newImportCommand() *cobra.Command {
	var given importing
	names := strings.Join(importer.Sources(), ", ")
	cmd := &cobra.Command{
		Use:   "import SOURCE[,SOURCE...] PATH...",
		Short: "Write an inventory from what another program has written down",
		Long: `Write an inventory from what another program has written down: its resources or files, or the Nodes of a cluster.
The inventory goes to the standard output, and beside each thing stands where it came from. What
is not in it, and what was guessed, goes to the standard error output, a line each, with its place.

SOURCE is one of ` + names + `; several with commas between them are joined.
PATH is a file or a folder, - for the standard input, or the word cluster: what is there is read, and nothing is changed.

Exit codes: 0 all is in the inventory, 1 something is not or was guessed, 2 with errors; with --strict nothing is
written where the code would be 1.`,
		Example: `  plinth import nodes,metallb cluster > inventory.yaml
  plinth import metallb metallb/
  plinth import ansible --rack-by rack_ inventory/mycluster
  curl -H "Authorization: Token $TOKEN" "https://netbox.example.com/api/dcim/devices/?limit=0" | plinth import netbox -
  kubectl get nodes -o yaml | plinth import nodes --rack-by example.com/rack -`,
		Args: usage(cobra.MinimumNArgs(2)),
		RunE: given.run,
	}
	given.addTo(cmd)
	return cmd
}

func (i *importing) addTo(cmd *cobra.Command) {
	i.cluster.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&i.options.Name, "name", "imported", "the inventory's metadata.name")
	flags.StringVar(&i.options.RackBy, "rack-by", "", "what says the rack: a label of Nodes (default: the one that all node selectors ask for, else topology.kubernetes.io/zone); "+
		"of Ansible's hosts a variable (default: rack, else zone), or what the names of those groups begin with that are racks")
	flags.StringSliceVar(&i.options.Roles, "role", importer.DefaultRoles, "slugs of NetBox's device roles that machines have")
	flags.StringSliceVar(&i.options.RouterRoles, "router-role", importer.DefaultRouterRoles, "slugs of NetBox's device roles that routers have")
	flags.BoolVar(&i.options.Labels, "labels", false, "take labels of Nodes into the inventory, besides those of place and type")
	flags.BoolVar(&i.options.PodNetwork, "pod-network", false, "take the Nodes' pod CIDRs into the inventory, for Plinth to route them in place of a CNI")
	flags.BoolVar(&i.strict, "strict", false, "write nothing where something is not in the inventory or was guessed")
}

// run writes the inventory to the standard output, and notes to the standard error output.
func (i *importing) run(cmd *cobra.Command, args []string) error {
	i.options.Sources = strings.Split(args[0], ",")
	for _, s := range i.options.Sources {
		if err := knownSource(s); err != nil {
			return exit{exitUsage, err}
		}
	}
	docs, err := readTexts(cmd, i.cluster, i.options.Sources, args[1:])
	if err != nil {
		return err
	}
	text, notes := importer.Import(i.options, docs...)
	tellNotes(cmd.ErrOrStderr(), notes)
	if text == nil || i.strict && len(notes) > 0 {
		return exit{code: exitError}
	}
	_, err = cmd.OutOrStdout().Write(text)
	return ended(len(notes) == 0, err)
}

// tellNotes prints notes, a line each.
func tellNotes(out io.Writer, notes importer.Notes) {
	for _, n := range notes {
		if n.Source == inCluster {
			n.Line, n.Column = 0, 0 // of a text that nobody sees
		}
		fmt.Fprintln(out, n)
	}
}

// knownSource refuses a source that cannot be imported.
func knownSource(name string) error {
	all := importer.Sources()
	if slices.Contains(all, name) {
		return nil
	}
	err := fmt.Errorf("%q cannot be imported; accepted: %s", name, strings.Join(all, ", "))
	if meant := document.Nearest(name, all); meant != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, meant)
	}
	return err
}

// readTexts reads files, folders, the standard input, and the objects of a cluster that some sources ask for.
func readTexts(cmd *cobra.Command, cluster clusterFlags, sources, paths []string) (docs []document.Document, err error) {
	for _, path := range paths {
		var found []document.Document
		switch path {
		case inCluster:
			found, err = cluster.objects(cmd.Context(), importer.KindsOf(sources...))
		case "-":
			found = []document.Document{{Source: path}}
			if found[0].Data, err = io.ReadAll(cmd.InOrStdin()); err != nil {
				err = fmt.Errorf("standard input: %w", err)
			}
		default:
			found, err = source.Texts(path, importer.Reads(sources...))
		}
		if err != nil {
			return nil, err
		}
		docs = append(docs, found...)
	}
	return docs, nil
}
