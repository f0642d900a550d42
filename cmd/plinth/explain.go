package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
)

func newExplainCommand() *cobra.Command {
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "explain [FIELD | CODE | machine/NAME PATH...]",
		Short: "Say what a field or a problem means, or where a machine's values come from",
		Long: `Say what a field or a problem means, or where a machine's values come from.

FIELD is a path such as spec.racks.machines.unit; without one the whole document is
described. CODE is that of a problem, such as P0304. machine/NAME tells every
effective value of that machine and the place in the inventory that it comes from; PATH
is a file, a folder, - for the standard input, or the word cluster for what is in force there.`,
		Example: `  plinth explain spec.bgp
  plinth explain P0304
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
				return exit{exitUsage, fmt.Errorf("want one field or code, got %d", len(args))}
			case inventory.DocOf(inventory.Code(args[0])).Doc != "":
				return explainCode(out, inventory.Code(args[0]))
			}
			return explainField(out, args[0])
		},
	}
	cluster.addTo(cmd)
	return cmd
}

// explainCode prints what a problem means.
func explainCode(w io.Writer, code inventory.Code) error {
	d := inventory.DocOf(code)
	_, err := fmt.Fprintf(w, "%s %s\n\n%s\n", d.Code, d.Name, wrapped(d.Doc, 80))
	return err
}

// explainField prints a field and what can stand in it.
func explainField(w io.Writer, path string) error {
	field, of, err := inventory.FieldAt(path)
	if err != nil {
		return exit{exitUsage, err}
	}
	if field.Key != "" {
		fmt.Fprintf(w, "%s: %s%s\n\n%s\n", path, field.Kind(), required(field), wrapped(field.Doc, 80))
	} else {
		fmt.Fprintln(w, wrapped(of.Doc, 80))
	}
	if len(of.Fields) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nKeys:")
	for _, f := range of.Fields {
		if !f.Hidden {
			fmt.Fprintf(w, "  %s: %s%s\n%s\n", f.Key, f.Kind(), required(f), indented(wrapped(f.Doc, 74), "      "))
		}
	}
	return nil
}

func required(f inventory.FieldDoc) string {
	if f.Required {
		return ", required"
	}
	return ""
}

// explainMachine prints a table of the machine's values.
func explainMachine(cmd *cobra.Command, cluster clusterFlags, name string, paths []string) error {
	edit, err := read(cmd, cluster, paths)
	if err != nil {
		return err
	}
	origins, problems := inventory.Explain(name, edit.Documents...)
	problems = append(edit.Problems, problems...)
	if len(problems) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), problems)
	}
	switch {
	case len(problems.Errors()) > 0:
		return exit{code: exitError}
	case origins == nil:
		return fmt.Errorf("machine %s: %w", name, inventory.ErrNoMachine)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, o := range origins {
		from := o.Note
		if o.Position.Line > 0 {
			from = fmt.Sprintf("%s:%d", o.Position.Source, o.Position.Line)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", o.Field, o.Value, from)
	}
	return w.Flush()
}

// wrapped breaks text into lines of at most so many bytes.
func wrapped(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func indented(text, by string) string { return by + strings.ReplaceAll(text, "\n", "\n"+by) }
