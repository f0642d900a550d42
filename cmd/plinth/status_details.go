package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/diagnose"
)

// detail is a subcommand of status: a table of one kind.
type detail[T any] struct {
	name, short string
	agents      bool // they are asked
	of          func(diagnose.Observed, map[string]diagnose.Answer) diagnose.Details[T]
	columns     []column[T]
}

// column is one of a table.
type column[T any] struct {
	name string
	wide bool // only with -o wide
	cell func(T) string
}

func newDetailCommands() []*cobra.Command {
	return []*cobra.Command{sessionDetails.command(), vipDetails.command(), nodeDetails.command(), poolDetails.command(), routeDetails.command()}
}

func (d detail[T]) command() *cobra.Command {
	var cluster clusterFlags
	var view viewFlags
	var agents agentFlags
	cmd := &cobra.Command{
		Use: d.name, Short: d.short, Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := chosen(d.writers(), view.output)
			if err != nil {
				return err
			}
			reader, asker, err := cluster.surveyors(cmd.Context(), agents)
			if err != nil {
				return err
			}
			return view.show(cmd, func(ctx context.Context, out io.Writer) (bool, error) {
				seen, err := reader.Read(ctx)
				if err != nil {
					return false, err
				}
				var answers map[string]diagnose.Answer
				if d.agents {
					answers = asker.Ask(ctx, seen.Agents, diagnose.NodesToAsk(seen))
				}
				all := d.of(seen, answers)
				return all.Well, write(out, all)
			})
		},
	}
	cmd.Long = d.short + ".\n\n" + exitsOfDetails
	if d.agents {
		cmd.Long = d.short + ".\n\n" + asksAgents + "\n\n" + exitsOfDetails
		agents.addTo(cmd)
	}
	view.addTo(cmd)
	cluster.addTo(cmd)
	return cmd
}

const (
	asksAgents = `Every agent is asked, through the API server, 32 at a time and ten seconds each at most, which takes
the right to create pods/portforward in Plinth's namespace. Those that could not be asked are named.`
	exitsOfDetails = "Exit codes: 0 all is as it should be, 1 something is not or could not be asked, 2 error."
)

func (d detail[T]) writers() map[string]func(io.Writer, diagnose.Details[T]) error {
	text := func(wide bool) func(io.Writer, diagnose.Details[T]) error {
		return func(w io.Writer, all diagnose.Details[T]) error { return d.write(w, all, wide) }
	}
	return map[string]func(io.Writer, diagnose.Details[T]) error{
		"text": text(false), "wide": text(true),
		"json": printJSON[diagnose.Details[T]],
		"yaml": printYAML[diagnose.Details[T]],
	}
}

// write prints a table, and below it the Nodes that it lacks.
func (d detail[T]) write(out io.Writer, all diagnose.Details[T], wide bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	row := func(cell func(column[T]) string) {
		var cells []string
		for _, c := range d.columns {
			if wide || !c.wide {
				cells = append(cells, cmp.Or(cell(c), "-"))
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row(func(c column[T]) string { return c.name })
	for _, item := range all.Items {
		row(func(c column[T]) string { return c.cell(item) })
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(all.NotAsked) > 0 {
		writeList(out, fmt.Sprintf("\nNot asked (%s):", countOf(len(all.NotAsked), "agent")), reasonsOf(all.NotAsked, wide))
	}
	return nil
}

// reasonsOf puts Nodes together that could not be asked for the same reason, but for the names of their
// pods.
func reasonsOf(all []diagnose.NotAsked, wide bool) (out []string) {
	nodes := map[string][]string{}
	for _, n := range all {
		why := n.Why
		if _, rest, named := strings.Cut(why, ": "); !wide && named && strings.HasPrefix(why, "pod ") {
			why = rest
		}
		nodes[why] = append(nodes[why], n.Node)
	}
	for _, why := range slices.Sorted(maps.Keys(nodes)) {
		names := someNames(nodes[why])
		if wide {
			names = strings.Join(nodes[why], ", ")
		}
		out = append(out, names+": "+why)
	}
	return out
}

// at prints a time; empty: there is none.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// some prints a number and the first few names.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s,... (%d)", strings.Join(names[:most], ","), len(names))
}

var sessionDetails = detail[diagnose.SessionDetail]{
	name: "sessions", short: "Show the BGP sessions of all machines, with the cause of each that is down", agents: true, of: diagnose.Sessions,
	columns: []column[diagnose.SessionDetail]{
		{"NODE", false, func(s diagnose.SessionDetail) string { return s.Node }},
		{"ROUTER", false, func(s diagnose.SessionDetail) string { return s.Router }},
		{"ADDRESS", false, func(s diagnose.SessionDetail) string { return s.Address }},
		{"PHASE", false, func(s diagnose.SessionDetail) string { return s.Phase }},
		{"SINCE", false, func(s diagnose.SessionDetail) string { return at(s.Since) }},
		{"ANNOUNCED", false, func(s diagnose.SessionDetail) string { return strconv.Itoa(len(s.Announced)) }},
		{"CAUSE", false, func(s diagnose.SessionDetail) string { return s.Cause }},
		{"BFD", true, func(s diagnose.SessionDetail) string { return s.BFD }},
		{"HOLD TIME", true, func(s diagnose.SessionDetail) string { return s.HoldTime }},
		{"ACCEPTED", true, func(s diagnose.SessionDetail) string { return strconv.Itoa(s.Accepted) }},
		{"KEPT BACK", true, func(s diagnose.SessionDetail) string { return strconv.Itoa(s.Refused) }},
		{"LOSSES", true, func(s diagnose.SessionDetail) string { return strconv.FormatUint(s.Losses, 10) }},
		{"HELD UNTIL", true, func(s diagnose.SessionDetail) string { return at(s.HeldUntil) }},
		{"DETAIL", true, func(s diagnose.SessionDetail) string { return s.Detail }},
	},
}

var vipDetails = detail[diagnose.VIPDetail]{
	name: "vips", short: "Show the VIPs in use, how many machines are to announce each and how many do", agents: true, of: diagnose.VIPs,
	columns: []column[diagnose.VIPDetail]{
		{"VIP", false, func(v diagnose.VIPDetail) string { return v.VIP.String() }},
		{"POOL", false, func(v diagnose.VIPDetail) string { return v.Pool }},
		{"SERVICES", false, func(v diagnose.VIPDetail) string { return some(v.Services) }},
		{"PLANNED", false, func(v diagnose.VIPDetail) string { return strconv.Itoa(len(v.Planned)) }},
		{"ANNOUNCED", false, diagnose.VIPDetail.By},
		{"ROUTERS", true, func(v diagnose.VIPDetail) string { return some(v.Routers) }},
		{"BY", true, func(v diagnose.VIPDetail) string { return some(v.Announced) }},
		{"REASON", false, func(v diagnose.VIPDetail) string { return v.Reason }},
		{"MESSAGE", true, func(v diagnose.VIPDetail) string { return v.Message }},
	},
}

var nodeDetails = detail[diagnose.NodeDetail]{
	name: "nodes", short: "Show all Nodes with their machines, and what their agents have reached", agents: true, of: diagnose.Nodes,
	columns: []column[diagnose.NodeDetail]{
		{"NODE", false, func(n diagnose.NodeDetail) string { return n.Node }},
		{"MACHINE", true, func(n diagnose.NodeDetail) string { return n.Machine }},
		{"RACK", false, func(n diagnose.NodeDetail) string { return n.Rack }},
		{"STATE", false, func(n diagnose.NodeDetail) string { return n.State }},
		{"KUBELET", false, func(n diagnose.NodeDetail) string { return n.Kubelet }},
		{"FABRIC", false, func(n diagnose.NodeDetail) string { return n.Fabric }},
		{"SESSIONS", false, func(n diagnose.NodeDetail) string { return ratio(n.Asked, n.SessionsUp, n.Sessions) }},
		{"ROUTES", false, func(n diagnose.NodeDetail) string { return ratio(n.Asked, n.RoutesHeld, n.Routes) }},
		{"KERNEL SETTINGS", false, func(n diagnose.NodeDetail) string { return strings.Join(n.Settings, "; ") }},
		{"WAITING FOR", false, func(n diagnose.NodeDetail) string { return n.WaitingFor }},
		{"SINCE", true, func(n diagnose.NodeDetail) string { return atOrNever(n.Since) }},
		{"REASON", true, func(n diagnose.NodeDetail) string { return n.Reason }},
		{"AGENT", true, func(n diagnose.NodeDetail) string { return n.Image }},
		{"MESSAGE", true, func(n diagnose.NodeDetail) string { return n.Message }},
	},
}

// ratio prints how many of some there are; empty: not known.
func ratio(known bool, n, of int) string {
	if !known {
		return ""
	}
	return fmt.Sprintf("%d/%d", n, of)
}

func atOrNever(t *time.Time) string {
	if t == nil {
		return ""
	}
	return at(*t)
}

var poolDetails = detail[diagnose.PoolDetail]{
	name: "pools", short: "Show how many addresses of each pool are free",
	of: func(seen diagnose.Observed, _ map[string]diagnose.Answer) diagnose.Details[diagnose.PoolDetail] {
		return diagnose.Pools(seen)
	},
	columns: []column[diagnose.PoolDetail]{
		{"POOL", false, func(p diagnose.PoolDetail) string { return p.Pool }},
		{"STATE", false, func(p diagnose.PoolDetail) string { return p.State }},
		{"FAMILY", false, func(p diagnose.PoolDetail) string { return p.Family }},
		{"ADDRESSES", false, func(p diagnose.PoolDetail) string { return amount(p.Size) }},
		{"FREE", false, func(p diagnose.PoolDetail) string { return amount(p.Free) }},
		{"VIPS HELD", false, func(p diagnose.PoolDetail) string { return strconv.Itoa(p.VIPs) }},
	},
}

var routeDetails = detail[diagnose.RouteDetail]{
	name: "routes", short: "Show how many pod routes each machine wants and has, and which are missing", agents: true, of: diagnose.Routes,
	columns: []column[diagnose.RouteDetail]{
		{"NODE", false, func(r diagnose.RouteDetail) string { return r.Node }},
		{"WANTED", false, func(r diagnose.RouteDetail) string { return strconv.Itoa(r.Wanted) }},
		{"HELD", false, func(r diagnose.RouteDetail) string { return strconv.Itoa(r.Held) }},
		{"FAILED", false, func(r diagnose.RouteDetail) string { return some(r.Failed) }},
		{"WITHOUT ROUTE", false, func(r diagnose.RouteDetail) string { return some(unrouted(r)) }},
	},
}

func unrouted(r diagnose.RouteDetail) (out []string) {
	for _, u := range r.Unrouted {
		out = append(out, u.PodCIDR+" "+u.Reason)
	}
	return out
}
