package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/edit"
	"plinth.dev/plinth/preview"
)

func newDiffCommand() *cobra.Command {
	var output string
	var cluster clusterFlags
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Tell what changes from one inventory to another",
		Long: `Tell what changes from one inventory to another: machines that come, move, change
or are retired, sessions that come up, end or are reset, pools that grow or shrink.

OLD and NEW are each a file, a folder, - for the standard input, or the word cluster
for what is in force there. The change is told as it would be taken up with OLD in force: no pod CIDR
moves, and machines that NEW does not mention are held. Compared with a cluster, Services are named that
would lose their VIP. What would be refused is told with the reason, and with what lets it pass.

Exit codes: 0 nothing changes, 1 something does, 2 error.`,
		Example: `  plinth diff cluster inventory/
  git worktree add /tmp/main main && plinth diff -o markdown /tmp/main/inventory inventory`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := differenceWriters[output]
			if !ok {
				return exit{exitUsage, fmt.Errorf("-o %s: want text, json or markdown", output)}
			}
			difference, err := compare(cmd, cluster, args[0], args[1])
			if err != nil {
				return err
			}
			return ended(difference.Empty(), write(cmd.OutOrStdout(), difference))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or markdown")
	cluster.addTo(cmd)
	return cmd
}

// difference is the difference between two inventories, with the losses for which it would be refused.
type difference struct {
	edit.Difference
	judgement
	sessions []string // lines
	trials   []string // lines
	routers  []string // names of those that have to be told something new
}

// compare reads both inventories, and the cluster where what is in force there is one of them.
func compare(cmd *cobra.Command, cluster clusterFlags, old, next string) (compared difference, err error) {
	before, err := oneInventory(cmd, cluster, old)
	if err != nil {
		return compared, err
	}
	after, err := oneInventory(cmd, cluster, next)
	if err != nil {
		return compared, err
	}
	var now *preview.Cluster // nil: not asked, or not known
	if old == inCluster && next != inCluster {
		if now, err = cluster.now(cmd.Context()); err != nil { // who may read ConfigMaps alone learns the rest
			fmt.Fprintln(cmd.ErrOrStderr(), "Warning:", err)
		}
	}
	if next != inCluster {
		if after, err = admitted(cmd, after, before); err != nil {
			return compared, err
		}
	}
	compared = difference{Difference: edit.Diff(before, after), judgement: judge(before, after, now)}
	compared.sessions, compared.trials, compared.routers = sessionLines(compared.Difference, before), trialLines(before, after, now), routersToTell(before, after)
	return compared, nil
}

func oneInventory(cmd *cobra.Command, cluster clusterFlags, what string) (*inventory.Inventory, error) {
	return load(cmd, cluster, []string{what})
}

var differenceWriters = map[string]func(io.Writer, difference) error{
	"text":     writeDifferenceText,
	"json":     func(w io.Writer, d difference) error { return printJSON(w, differenceJSON(d)) },
	"markdown": writeDifferenceMarkdown,
}

func writeDifferenceText(out io.Writer, d difference) error {
	var all []string
	for _, s := range sections(d) {
		all = append(all, s.lines...)
	}
	if d.Empty() {
		all = append([]string{"nothing changes"}, all...)
	}
	_, err := fmt.Fprintln(out, strings.Join(all, "\n"))
	return err
}

// section is one part of a difference, told in lines.
type section struct {
	title string
	lines []string
}

func sections(d difference) []section {
	return []section{
		{"Names", lines(d.Renames)}, {"Machines", lines(d.Machines)}, {"Sessions", append(d.sessions, d.trials...)}, {"Pools", lines(d.Pools)}, {"Settings", lines(d.Settings)},
		{"Routers", converted(d.routers, routerLine)}, {"Losses", d.judgement.lines()},
	}
}

func lines[T fmt.Stringer](all []T) []string { return converted(all, T.String) }

// converted is a list with each item made into something else. It is never nil: in JSON an empty one is [].
func converted[T, U any](all []T, convert func(T) U) []U {
	out := make([]U, len(all))
	for i, item := range all {
		out[i] = convert(item)
	}
	return out
}

func routerLine(name string) string {
	return fmt.Sprintf("router %s must be told: plinth router-config %s", name, name)
}

// writeDifferenceMarkdown prints a comment for a merge request.
func writeDifferenceMarkdown(out io.Writer, difference difference) error {
	var text strings.Builder
	text.WriteString("## What changes\n")
	if difference.Empty() {
		text.WriteString("\nNothing.\n")
	}
	for _, s := range sections(difference) {
		if len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n### %s (%d)\n\n", s.title, len(s.lines))
		for _, l := range s.lines {
			head, fields, _ := strings.Cut(l, "\n")
			text.WriteString("- " + head + "\n")
			for f := range strings.Lines(fields) {
				text.WriteString("  - `" + strings.TrimSpace(f) + "`\n")
			}
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

type fieldJSON struct {
	Field string `json:"field"`
	Old   string `json:"old,omitempty"`
	New   string `json:"new,omitempty"`
}

type changeJSON struct {
	What       string      `json:"what,omitempty"` // rack, pool, community or router, where the list has several kinds
	Name       string      `json:"name,omitempty"`
	Was        string      `json:"was,omitempty"`
	Kind       string      `json:"kind"`
	Rack       string      `json:"rack,omitempty"`
	Machine    string      `json:"machine,omitempty"`
	Router     string      `json:"router,omitempty"`
	RouterAddr string      `json:"routerAddress,omitempty"`
	Gained     []string    `json:"gained,omitempty"`
	Lost       []string    `json:"lost,omitempty"`
	Given      []givenJSON `json:"given,omitempty"`
	ToLink     []string    `json:"toLink,omitempty"`
	ToBGP      []string    `json:"toBGP,omitempty"`
	Fields     []fieldJSON `json:"fields,omitempty"`
}

type givenJSON struct {
	To     string   `json:"to"`
	Ranges []string `json:"ranges"`
}

func givenOf(g edit.Given) givenJSON { return givenJSON{g.To, lines(g.Ranges)} }

// differenceJSON is a difference as scripts read it.
func differenceJSON(difference difference) map[string]any {
	renames := converted(difference.Renames, func(r edit.Rename) changeJSON {
		return changeJSON{What: r.What, Name: r.Name, Was: r.Was, Kind: string(edit.Renamed)}
	})
	machines := converted(difference.Machines, func(m edit.MachineChange) changeJSON {
		return changeJSON{Name: m.Name, Was: m.Was, Kind: string(m.Kind), Rack: m.Rack, Fields: fieldsJSON(m.Fields)}
	})
	sessions := converted(difference.Sessions, func(s edit.SessionChange) changeJSON {
		return changeJSON{Kind: string(s.Kind), Was: s.Was, Machine: s.Machine, Router: s.Router, RouterAddr: s.RouterAddr.String()}
	})
	pools := converted(difference.Pools, func(p edit.PoolChange) changeJSON {
		return changeJSON{Name: p.Name, Kind: string(p.Kind), Gained: lines(p.Gained), Lost: lines(p.Lost), Given: converted(p.Given, givenOf), ToLink: lines(p.ToLink), ToBGP: lines(p.ToBGP), Fields: fieldsJSON(p.Fields)}
	})
	return map[string]any{
		"renames": renames, "machines": machines, "sessions": sessions, "pools": pools, "settings": fieldsJSON(difference.Settings),
		"losses": difference.judgement.json(), "routersToTell": append([]string{}, difference.routers...),
	}
}

func fieldsJSON(all []edit.FieldChange) []fieldJSON {
	return converted(all, func(f edit.FieldChange) fieldJSON { return fieldJSON(f) })
}
