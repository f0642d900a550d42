package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plinth.dev/plinth/golden"
)

//go:generate go test . -run TestReferencePage -update

const referencePage = "../../docs/reference/plinth.md"

func TestReferencePage(t *testing.T) {
	golden.Hold(t, referencePage, []byte(reference(newRootCommand())))
}

// reference is the page of a program: what --help of each of its commands says.
func reference(root *cobra.Command) string {
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\n<!-- generated from the sources by make generate -->\n\n%s\n", root.Name(), root.Long)
	fmt.Fprint(&page, "\nInstalled as `kubectl-plinth` it answers to `kubectl plinth`, too. `plinth COMMAND --help` prints what is here.\n")
	for _, c := range commandsOf(root) {
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n\n", strings.TrimPrefix(c.CommandPath(), root.Name()+" "), c.UseLine())
		long := c.Long
		if long == "" {
			long = c.Short + "."
		}
		fmt.Fprintln(&page, strings.ReplaceAll(long, "\n  ", "\n    ")) // four spaces: a code block
		writeFlags(&page, c)
		if c.Example != "" {
			fmt.Fprintf(&page, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
		}
	}
	return page.String()
}

// commandsOf are the commands of a command, each followed by its own.
func commandsOf(parent *cobra.Command) (all []*cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.Hidden {
			all = append(append(all, c), commandsOf(c)...)
		}
	}
	return all
}

func writeFlags(page *strings.Builder, c *cobra.Command) {
	if !c.HasAvailableLocalFlags() {
		return
	}
	fmt.Fprint(page, "\n| flag | default | meaning |\n|---|---|---|\n")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, value := "`--"+f.Name+"`", f.DefValue
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if value != "" && value != "[]" {
			value = "`" + value + "`"
		} else {
			value = ""
		}
		fmt.Fprintf(page, "| %s | %s | %s |\n", name, value, f.Usage)
	})
}
