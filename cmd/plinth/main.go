// Command plinth checks inventories, writes the router's side of their BGP
// sessions, and tells how a datacenter is. The commands status, why and doctor ask a
// cluster, and so do those that are given the word cluster for an inventory. The commands allow and
// move alone change anything there.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/buildinfo"
)

// Exit codes that scripts rely on.
const (
	exitGood     = 0
	exitDegraded = 1 // degraded, or differences were found
	exitError    = 2
	exitUsage    = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run is main without the process around it.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root, noCommand(root, args)
	if err == nil {
		cmd, err = root.ExecuteC()
	}
	var said exit
	switch {
	case err == nil:
		return exitGood
	case errors.As(err, &said):
		if said.err != nil {
			fmt.Fprintln(errs, "Error:", said.err)
		}
		if said.code == exitUsage {
			fmt.Fprintf(errs, "Run %q for usage.\n", cmd.CommandPath()+" --help")
		}
		return said.code
	}
	fmt.Fprintln(errs, "Error:", err)
	return exitError
}

// noCommand refuses words that are no command where help is asked for, too: cobra then answers with
// the help of the command before it, as if all were well.
func noCommand(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd() // which it would add only when it runs
	root.InitDefaultCompletionCmd(args...)
	found, rest, err := root.Find(args)
	asked := withoutFlags(rest)
	if err != nil || len(asked) == 0 || strings.HasPrefix(asked[0], cobra.ShellCompRequestCmd) {
		return nil // the command itself says what is wrong
	}
	forHelp := found.Name() == "help"
	if forHelp {
		found, asked, _ = root.Find(asked)
	}
	if found == root || forHelp || !found.Runnable() {
		return usage(cobra.NoArgs)(found, asked)
	}
	return nil
}

func withoutFlags(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "plinth",
		Version: buildinfo.Version,
		Short:   "Write and check inventories, write the router's side of them, and show the state of the datacenter",
		Long: `Write and check inventories, write the router's side of them, and show the state of the datacenter.

Exit codes: 0 good, 1 degraded or differences found, 2 error, 3 usage.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usage(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit{exitUsage, err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newAllowCommand(),
		newDiffCommand(),
		newDoctorCommand(),
		newExplainCommand(),
		newImportCommand(),
		newInitCommand(),
		newMoveCommand(),
		newRouterConfigCommand(),
		newSchemaCommand(),
		newSimulateCommand(),
		newStatusCommand(),
		newValidateCommand(),
		newVersionCommand(),
		newWhyCommand(),
	)
	return root
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.Version)
				return err
			case "json":
				return printJSON(cmd.OutOrStdout(), buildinfo.Fields())
			}
			return exit{exitUsage, fmt.Errorf("-o %s: want text or json", output)}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// exit is an error that says how the process ends. Without an error of its own
// everything has been said.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// usage turns a wrong number of arguments into an error of usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return exit{exitUsage, err}
		}
		return nil
	}
}
