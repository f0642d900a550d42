package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/provider/survey"
)

func newStatusCommand() *cobra.Command {
	var cluster clusterFlags
	var view viewFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the datacenter, as the cluster reports it",
		Long: `Show the state of the datacenter, as the cluster reports it: which inventory is in
force, how many machines of each rack are ready, how many VIPs of each pool are held and how many
addresses are free, what is out of service on purpose and why, and all problems: VIPs that nobody
announces, sessions that are down, Nodes without a machine and the reverse, an edit that was refused,
pools that are nearly full, agents that do not run or are of another version. What is out of service on
purpose (maintenance, off, a pool that drains) is no problem.

The API server alone is asked, in few requests however many machines there are. The subcommands sessions,
vips, nodes, pools and routes show one kind each, and ask agents where these know more.

Exit codes: 0 no problems, 1 problems, 2 error.`,
		Example: `  kubectl plinth status
  plinth status -o json | jq -r '.notWell[]'
  plinth status sessions -o wide
  plinth status vips -w`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := chosen(statusWriters, view.output)
			if err != nil {
				return err
			}
			reader, _, err := cluster.reader(cmd.Context())
			if err != nil {
				return err
			}
			return view.show(cmd, func(ctx context.Context, out io.Writer) (bool, error) {
				seen, err := reader.Read(ctx)
				if err != nil {
					return false, err
				}
				s := diagnose.Of(seen)
				return len(s.Findings) == 0, write(out, s)
			})
		},
	}
	view.addTo(cmd)
	cluster.addTo(cmd)
	cmd.AddCommand(newDetailCommands()...)
	return cmd
}

// reader reads the cluster that config says how to reach.
func (c clusterFlags) reader(ctx context.Context) (reader survey.Reader, config *rest.Config, err error) {
	if config, err = c.config(); err != nil {
		return reader, nil, err
	}
	if reader, err = survey.New(config, c.namespace); err != nil {
		return reader, nil, err
	}
	reader.Namespace, err = c.in(ctx, reader.Client)
	return reader, config, err
}

// chosen is the writer of a form of output.
func chosen[T any](writers map[string]func(io.Writer, T) error, output string) (func(io.Writer, T) error, error) {
	write, ok := writers[output]
	if _, wide := writers["wide"]; !ok && wide {
		return nil, exit{exitUsage, fmt.Errorf("-o %s: want text, wide, json or yaml", output)}
	} else if !ok {
		return nil, exit{exitUsage, fmt.Errorf("-o %s: want text, json or yaml", output)}
	}
	return write, nil
}

var statusWriters = map[string]func(io.Writer, diagnose.Status) error{
	"text": writeStatusText,
	"wide": writeStatusWide,
	"json": printJSON[diagnose.Status],
	"yaml": printYAML[diagnose.Status],
}
