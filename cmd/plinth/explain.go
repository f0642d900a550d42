package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

func newExplainCommand() *cobra.Command {
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "explain [NAME | machine/NAME PATH...]",
		Short: "Say what a name means that Plinth prints, or where a machine's values come from",
		Long: `Say what a name means that Plinth prints, or where a machine's values come from.

NAME is a field of the inventory, with the path to it or a part of it
(spec.racks.machines.unit, bgp.holdTime, unit), the code of a problem (P0304) or of a note
of an import (I0003), a reason of an Event or a condition, the cause of a session that is down, a metric, a label, an
annotation, a state. Without one the whole document is described. machine/NAME tells every
effective value of that machine and the place in the inventory that it comes from; PATH
is a file, a folder, - for the standard input, or the word cluster for what is in force there.`,
		Example: `  plinth explain bgp.holdTime
  plinth explain P0304
  plinth explain PoolExhausted
  plinth explain plinth_agent_session_up
  plinth explain machine/w1 inventory/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if len(args) == 0 {
				args = []string{""}
			}
			name, isMachine := strings.CutPrefix(args[0], "machine/")
			switch {
			case isMachine && len(args) > 1:
				return explainMachine(cmd, cluster, name, args[1:])
			case isMachine:
				return exit{exitUsage, fmt.Errorf("machine/%s: want the files or folders of the inventory after it", name)}
			case len(args) > 1:
				return exit{exitUsage, fmt.Errorf("want one name, got %d", len(args))}
			}
			return explainName(out, args[0])
		},
	}
	cluster.addTo(cmd)
	return cmd
}

// explainField prints a field and what can stand in it. Several paths are of one field that
// stands in several places.
func explainField(out io.Writer, paths ...string) error {
	field, of, err := document.FieldAt(paths[0])
	if err != nil {
		return exit{exitUsage, err}
	}
	if field.Key != "" {
		for _, path := range paths {
			fmt.Fprintf(out, "%s: %s%s\n", path, field.Kind(), required(field))
		}
		fmt.Fprintf(out, "\n%s\n", wrapped(field.Doc, 80))
	} else {
		fmt.Fprintln(out, wrapped(of.Doc, 80))
	}
	if len(of.Fields) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nKeys:")
	for _, f := range of.Fields {
		if !f.Hidden {
			fmt.Fprintf(out, "  %s: %s%s\n%s\n", f.Key, f.Kind(), required(f), indented(wrapped(f.Doc, 74), "      "))
		}
	}
	return nil
}

func required(f document.FieldDoc) string {
	if f.Required {
		return ", required"
	}
	return ""
}

// explainMachine prints a table of the machine's values.
func explainMachine(cmd *cobra.Command, cluster clusterFlags, name string, paths []string) error {
	proposed, err := read(cmd, cluster, paths)
	if err != nil {
		return err
	}
	origins, problems := document.Explain(name, proposed.Documents...)
	problems = append(proposed.Problems, problems...)
	if len(problems) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
	}
	switch {
	case len(problems.Errors()) > 0:
		return exit{code: exitError}
	case origins == nil:
		return fmt.Errorf("machine %s: %w", name, inventory.ErrNoMachine)
	}
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, o := range origins {
		from := o.Note
		if o.Position.Line > 0 {
			from = fmt.Sprintf("%s:%d", o.Position.Source, o.Position.Line)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", o.Field, o.Value, from)
	}
	return out.Flush()
}

// wrapped breaks text into lines of at most so many bytes.
func wrapped(text string, width int) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

func indented(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }
