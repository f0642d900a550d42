package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/importer"
	"plinth.dev/plinth/provider/taken"
)

// start is what init is told by flags.
type start struct {
	output      string
	name        string
	rackBy      string
	router      string
	asn         string
	routerASN   string
	pool        []string
	takeDefault bool
}

func newInitCommand() *cobra.Command {
	var cluster clusterFlags
	var s start
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the first inventory of a running cluster",
		Long: `Write the first inventory of a running cluster: its Nodes as machines, what another balancer there has,
and what you say. Nothing in the cluster is changed.

What the cluster does not tell is asked for, each with what is taken where you only press Enter:
whether a router speaks BGP with the machines (else they answer for VIPs on their own network), and
which addresses Services get. Flags answer beforehand, and --yes takes what is proposed.

What was guessed, and what is not in the inventory, is told with what to do about it, and the next three commands.`,
		Example: "  plinth init\n  plinth init --yes --pool 192.168.1.200-192.168.1.219\n  plinth init --router 192.168.1.1 --router-asn 64513 --asn 64514 --pool 203.0.113.0/24",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.run(cmd, cluster) },
	}
	cluster.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&s.output, "output", "o", "inventory.yaml", "file to write; - for the standard output")
	flags.StringVar(&s.name, "name", "home", "the inventory's metadata.name")
	flags.StringVar(&s.rackBy, "rack-by", "", "label of Nodes whose value is their rack (default: topology.kubernetes.io/zone)")
	flags.StringVar(&s.router, "router", "", "address of the router that speaks BGP with the machines")
	flags.StringVar(&s.routerASN, "router-asn", "", "its AS number")
	flags.StringVar(&s.asn, "asn", "", "the machines' AS number (default: 64514)")
	flags.StringSliceVar(&s.pool, "pool", nil, "addresses that Services get: prefixes, or ranges as in 192.168.1.200-192.168.1.219")
	flags.BoolVar(&s.takeDefault, "yes", false, "ask nothing: take what is proposed")
	return cmd
}

func (s start) run(cmd *cobra.Command, cluster clusterFlags) error {
	if _, err := os.Stat(s.output); err == nil && s.output != "-" {
		return exit{exitUsage, fmt.Errorf("%s is there already: move it away, or name another file by --output", s.output)}
	}
	docs, err := cluster.objects(cmd.Context(), importer.KindsOf(importer.Sources()...))
	if err != nil {
		return err
	}
	client, err := cluster.client()
	if err != nil {
		return err
	}
	used, err := usedIn(cmd.Context(), client)
	if err != nil {
		return err
	}
	options := importer.Options{Sources: importer.Present(docs...), Name: s.name, RackBy: s.rackBy}
	answers, err := s.answers(cmd, options, used, docs)
	if err != nil {
		return err
	}
	text, notes := importer.Propose(options, answers, docs...)
	tellNotes(cmd.ErrOrStderr(), notes)
	if text == nil {
		return exit{code: exitError}
	}
	if s.output == "-" {
		_, err = cmd.OutOrStdout().Write(text)
		return err
	}
	if err := os.WriteFile(s.output, text, 0o644); err != nil {
		return err
	}
	return s.next(cmd.OutOrStdout(), answers)
}

// next tells how to go on.
func (s start) next(out io.Writer, a importer.Answers) error {
	onLink := ""
	if !a.Router.IsValid() {
		onLink = " --set agent.onLink=true"
	}
	_, err := fmt.Fprintf(out, `%s is written. Look at it, and then:

  plinth validate --cluster %[1]s
  helm install plinth plinth-*.tgz --namespace plinth-system --create-namespace%s --set inventory.name=%s --set-file 'inventory.files.inventory\.yaml=%[1]s' --wait
  plinth status
`, s.output, onLink, s.name)
	return err
}

// answers are what flags say, and else what is asked.
func (s start) answers(cmd *cobra.Command, options importer.Options, used []netip.Prefix, docs []inventory.Document) (a importer.Answers, err error) {
	a.Used = used
	ask := asker{in: bufio.NewScanner(cmd.InOrStdin()), out: cmd.ErrOrStderr(), quiet: s.takeDefault}
	hasBalancer := len(options.Sources) > 1
	if s.router == "" && !hasBalancer {
		s.router = ask.line("Address of a router that speaks BGP with the machines", "none: machines answer for VIPs on their own network")
	}
	if s.router != "" {
		if err := s.routerAnswers(ask, &a); err != nil {
			return a, err
		}
	}
	if len(s.pool) == 0 && !hasBalancer {
		proposed := ""
		if block, ok := importer.Free(options, used, docs...); ok && !a.Router.IsValid() {
			proposed = block.String()
		}
		if said := ask.line("Addresses that Services get, which no DHCP server gives away", proposed); said != proposed {
			s.pool = strings.FieldsFunc(said, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	for _, text := range s.pool {
		r, err := inventory.ParseRange(text)
		if err != nil {
			return a, exit{exitUsage, fmt.Errorf("--pool: %w", err)}
		}
		a.Pool = append(a.Pool, r)
	}
	return a, nil
}

// routerAnswers are those that a session needs.
func (s start) routerAnswers(ask asker, a *importer.Answers) (err error) {
	if a.Router, err = netip.ParseAddr(s.router); err != nil {
		return exit{exitUsage, fmt.Errorf("--router: %q is not an address", s.router)}
	}
	if s.routerASN == "" {
		s.routerASN = ask.line("AS number of the router", "")
	}
	if s.asn == "" {
		s.asn = ask.line("AS number of the machines", "64514")
	}
	if a.RouterASN, err = inventory.ParseASN(s.routerASN); err != nil {
		return exit{exitUsage, fmt.Errorf("--router-asn: %w", err)}
	}
	if a.ASN, err = inventory.ParseASN(s.asn); err != nil {
		return exit{exitUsage, fmt.Errorf("--asn: %w", err)}
	}
	return nil
}

// asker asks a person, line by line.
type asker struct {
	in    *bufio.Scanner
	out   io.Writer
	quiet bool
}

// line asks one question. What is proposed is the answer where nobody types anything, or nobody is asked.
func (a asker) line(question, proposed string) string {
	answer := proposed
	if !a.quiet {
		fmt.Fprintf(a.out, "%s [%s]: ", question, proposed)
		if a.in.Scan() && strings.TrimSpace(a.in.Text()) != "" {
			answer = strings.TrimSpace(a.in.Text())
		}
	}
	if strings.HasPrefix(answer, "none") {
		return ""
	}
	return answer
}

// usedIn are all addresses that a cluster has: those that package taken knows, and its VIPs.
func usedIn(ctx context.Context, client kubernetes.Interface) (used []netip.Prefix, err error) {
	nodes, err1 := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	services, err2 := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	cidrs, err3 := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for _, t := range taken.In(pointers(nodes.Items), pointers(services.Items), pointers(cidrs.Items), taken.Everything) {
		used = append(used, t.Prefix)
	}
	for _, s := range services.Items {
		for _, in := range s.Status.LoadBalancer.Ingress {
			if a, err := netip.ParseAddr(in.IP); err == nil {
				used = append(used, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return used, nil
}

// pointers leads to each item of a list.
func pointers[T v1.Node | v1.Service | networkingv1.ServiceCIDR](items []T) (all []*T) {
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}
