package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/preview"
)

// report is the outcome of reading an inventory.
type report struct {
	edit      source.Edit
	inventory *inventory.Inventory // nil: it has errors
	problems  inventory.Problems
}

// writers print a report, each in a form of its own.
var writers = map[string]func(io.Writer, report) error{
	"text":   writeText,
	"json":   writeJSON,
	"github": writeGitHub,
	"sarif":  writeSARIF,
}

func newValidateCommand() *cobra.Command {
	var output string
	var strict, against bool
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check an inventory and say what is wrong with it",
		Long: `Check an inventory and say what is wrong with it: every problem at once, with
its place, what would be accepted, and what was probably meant.

PATH is a file or a folder, - for the standard input, or the word cluster for what is
in force there; all of them together are one inventory. ConfigMaps that bear the label plinth.dev/inventory are unwrapped, as
the controller reads them; kustomization.yaml and documents of other kinds are passed
over, and the last line names them.

Exit codes: 0 without errors, 1 with --strict if there are warnings, 2 with errors.`,
		Example: `  plinth validate inventory/
  plinth validate --cluster inventory/
  plinth validate -o github inventory/        # annotations in a GitHub workflow
  plinth validate -o sarif . > plinth.sarif   # for code scanning
  kubectl kustomize . | plinth validate -`,
		Args: usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := writers[output]
			if !ok {
				return exit{exitUsage, fmt.Errorf("-o %s: want text, json, github or sarif", output)}
			}
			proposed, err := read(cmd, cluster, args)
			if err != nil {
				return err
			}
			given := report{edit: proposed}
			given.inventory, given.problems = loaded(proposed)
			if against && given.inventory != nil {
				if err := given.hold(cmd, cluster); err != nil {
					return err
				}
			}
			return errors.Join(write(cmd.OutOrStdout(), given), given.verdict(strict))
		},
	}
	cluster.addTo(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json, github or sarif")
	cmd.Flags().BoolVar(&against, "cluster", false, "say what would be refused as an edit of what is in force in the cluster, and which addresses of pools the cluster has and which match several Nodes fit, too")
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 1 if there are warnings")
	return cmd
}

// hold adds the problems that the inventory would have as an edit in a cluster.
func (r *report) hold(cmd *cobra.Command, flags clusterFlags) error {
	inForce, err := flags.inForce(cmd)
	if err != nil {
		return err
	}
	now, err := flags.now(cmd.Context())
	if err != nil {
		return err
	}
	r.against(inForce, now)
	return nil
}

// against adds the problems that the inventory has as an edit of the one in force in a cluster.
func (r *report) against(inForce *inventory.Inventory, now *preview.Cluster) {
	next, problems := edit.Admit(r.inventory.Uncarved(), inForce)
	if next != nil {
		j := judge(inForce, next, now)
		problems = append(j.problems, problems...)
		had := slices.DeleteFunc(preview.TakenIn(next, *now), func(a inventory.TakenAddress) bool { return slices.Contains(j.losses.Taken, a) })
		problems = append(problems, inventory.TakenProblems(had)...) // the others it is refused for
		problems = append(problems, next.SharedMatches(now.Identities())...)
	}
	for _, p := range problems { // what the inventory says by itself is there already
		if !slices.ContainsFunc(r.problems, func(o inventory.Problem) bool { return o.String() == p.String() }) {
			r.problems = append(r.problems, p)
		}
	}
	if r.problems.Err() != nil {
		r.inventory = nil
	}
}

// verdict is the exit code that the report calls for.
func (r report) verdict(strict bool) error {
	switch {
	case len(r.problems.Errors()) > 0:
		return exit{code: exitError}
	case strict && len(r.problems) > 0:
		return exit{code: exitDegraded}
	}
	return nil
}

// problemJSON is a problem as scripts read it.
type problemJSON struct {
	Source     string         `json:"source"`
	Line       int            `json:"line,omitempty"`
	Column     int            `json:"column,omitempty"`
	Severity   string         `json:"severity"`
	Code       string         `json:"code"`
	Path       string         `json:"path,omitempty"`
	Message    string         `json:"message"`
	Value      string         `json:"value,omitempty"`
	Accepted   string         `json:"accepted,omitempty"`
	Suggestion string         `json:"suggestion,omitempty"`
	Example    bool           `json:"example,omitempty"` // the suggestion is one of many that would do
	Related    []positionJSON `json:"related,omitempty"`
}

type positionJSON struct {
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func problemOf(p inventory.Problem) problemJSON {
	out := problemJSON{p.Source, p.Line, p.Column, string(p.Severity), string(p.Code), p.Path, p.Message, p.Value, p.Accepted, p.Suggestion, p.Example, nil}
	for _, r := range p.Related {
		out.Related = append(out.Related, positionJSON(r))
	}
	return out
}

func writeJSON(w io.Writer, report report) error {
	return printJSON(w, map[string]any{
		"valid": report.inventory != nil, "errors": len(report.problems.Errors()), "warnings": len(report.problems.Warnings()), "problems": converted(report.problems, problemOf),
		"passedOver": append([]string{}, report.edit.PassedOver...),
	})
}

// printJSON prints a value for people and programs at once.
func printJSON[T any](w io.Writer, v T) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printYAML prints the output of [printJSON] as YAML: the same keys in the same order.
func printYAML[T any](to io.Writer, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil { // JSON is YAML
		return err
	}
	inBlocks(&root)
	out, err := yaml.Marshal(&root)
	if err == nil {
		_, err = to.Write(out)
	}
	return err
}

// inBlocks drops the braces and quotes of JSON. What has to be quoted still is.
func inBlocks(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		inBlocks(c)
	}
}
