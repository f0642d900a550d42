package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/survey"
)

func newWhyCommand() *cobra.Command {
	var cluster clusterFlags
	var agents agentFlags
	var output string
	cmd := &cobra.Command{
		Use:   "why svc/NAMESPACE/NAME | [vip/]ADDRESS | node/NAME | router/NAME",
		Short: "Show what one thing depends on, and where that breaks",
		Long: `Show what one thing depends on, step by step from what is wanted to what is on the wire, and
the first step that does not hold, with the reason and what would mend it. What comes after a broken step
is not asked.

The last steps are the agents' to tell: a few are asked, through the API server, which takes the right to
create pods/portforward in Plinth's namespace.

Exit codes: 0 every step holds, 1 some step does not or could not be asked, 2 error.`,
		Example: `  plinth why svc/default/web
  plinth why vip/203.0.113.7
  plinth why node/w1
  plinth why router/tor-r1`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := chosen(chainWriters, output)
			if err != nil {
				return err
			}
			ask, err := subject(args[0])
			if err != nil {
				return exit{exitUsage, err}
			}
			reader, asker, err := cluster.surveyors(cmd.Context(), agents)
			if err != nil {
				return err
			}
			chain, err := why(cmd.Context(), reader, asker, ask)
			if err != nil {
				return err
			}
			return ended(chain.Well(), write(cmd.OutOrStdout(), chain))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or yaml")
	cluster.addTo(cmd)
	agents.addTo(cmd)
	return cmd
}

// agentFlags are the flags for the port that agents listen on.
type agentFlags struct{ port int }

func (a *agentFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().IntVar(&a.port, "agent-port", 10268, "port of each machine's loopback that its agent listens at")
}

// surveyors read the cluster, and ask agents.
func (c clusterFlags) surveyors(ctx context.Context, agents agentFlags) (survey.Reader, survey.Asker, error) {
	reader, config, err := c.reader(ctx)
	if err != nil {
		return reader, survey.Asker{}, err
	}
	return reader, survey.NewAsker(config, reader, agents.port), nil
}

// question returns the chain of one thing, from an observation and the answers of agents.
type question func(diagnose.Observed, map[string]diagnose.Answer) diagnose.Chain

// subject parses the name of the thing that a person asks about.
func subject(text string) (question, error) {
	if _, err := netip.ParseAddr(text); err == nil {
		text = "vip/" + text
	}
	kind, name, several := strings.Cut(text, "/")
	switch kind {
	case "svc", "service", "services":
		key, ok := lb.ParseServiceKey(name)
		if !ok {
			return nil, fmt.Errorf("%s: want svc/NAMESPACE/NAME", text)
		}
		return func(seen diagnose.Observed, a map[string]diagnose.Answer) diagnose.Chain {
			return diagnose.WhyService(seen, key, a)
		}, nil
	case "vip":
		vip, err := netip.ParseAddr(name)
		if err != nil {
			return nil, fmt.Errorf("%s: want vip/ADDRESS", text)
		}
		return func(seen diagnose.Observed, a map[string]diagnose.Answer) diagnose.Chain {
			return diagnose.WhyVIP(seen, vip.Unmap(), a)
		}, nil
	case "node", "nodes":
		if name != "" {
			return func(seen diagnose.Observed, a map[string]diagnose.Answer) diagnose.Chain {
				return diagnose.WhyNode(seen, name, a)
			}, nil
		}
	case "router":
		if name != "" {
			return func(seen diagnose.Observed, a map[string]diagnose.Answer) diagnose.Chain {
				return diagnose.WhyRouter(seen, name, a)
			}, nil
		}
	}
	meant := ""
	switch {
	case several && name != "" && !strings.Contains(name, "/"):
		meant = "; did you mean svc/" + text + "?"
	case !several && text != "":
		meant = fmt.Sprintf("; did you mean node/%s, router/%[1]s or svc/default/%[1]s?", text)
	}
	return nil, fmt.Errorf("%s: want svc/NAMESPACE/NAME, vip/ADDRESS, node/NAME or router/NAME%s", text, meant)
}

// why asks the API server, and agents where the chain comes so far.
func why(ctx context.Context, reader survey.Reader, asker survey.Asker, ask question) (diagnose.Chain, error) {
	seen, err := reader.Read(ctx)
	if err != nil {
		return diagnose.Chain{}, err
	}
	chain := ask(seen, nil)
	if len(chain.Ask) > 0 {
		chain = ask(seen, asker.Ask(ctx, seen.Agents, chain.Ask))
	}
	return chain, nil
}

var chainWriters = map[string]func(io.Writer, diagnose.Chain) error{
	"text": writeChainText,
	"json": printJSON[diagnose.Chain],
	"yaml": printYAML[diagnose.Chain],
}

// writeChainText prints a line for each link, and below one that does not hold what would mend it.
func writeChainText(out io.Writer, c diagnose.Chain) error {
	var lines strings.Builder
	fmt.Fprintln(&lines, c.What)
	for _, link := range c.Links {
		text := link.Text
		if link.Reason != "" && !strings.Contains(text, link.Reason) {
			text = link.Reason + ": " + text
		}
		fmt.Fprintln(&lines, strings.TrimRight(fmt.Sprintf("  %-10s %-10s %s", link.Step, link.Mark, text), " "))
		if link.Help != "" {
			fmt.Fprintf(&lines, "  %-21s %s\n", "", "-> "+link.Help)
		}
	}
	_, err := io.WriteString(out, lines.String())
	return err
}
