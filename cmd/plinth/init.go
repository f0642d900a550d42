package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/inventory/importer"
	"plinth.dev/plinth/provider/taken"
)

// start are the flags of init.
type start struct {
	output      string
	name        string
	rackBy      string
	router      string
	asn         string
	routerASN   string
	pool        []string
	network     string
	address     []string
	takeDefault bool
}

func newInitCommand() *cobra.Command {
	var cluster clusterFlags
	var given start
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the first inventory of a running cluster",
		Long: `Write the first inventory of a running cluster: its Nodes as machines, what MetalLB or Cilium there has,
and what you say. Nothing in the cluster is changed.

What the cluster does not tell is asked for, each with what is taken where you only press Enter:
the address of each Node that reports none, as Nodes do that wait for their first cloud provider; whether a
router speaks BGP with the machines (else they answer for VIPs on their own network, and how large that is);
and which addresses Services get. Flags answer beforehand, and --yes takes what is proposed.

What was guessed, and what is not in the inventory, is told with what to do about it, and the next three commands.`,
		Example: "  plinth init\n  plinth init --yes --pool 192.168.1.200-192.168.1.219\n  plinth init --router 192.168.1.1 --router-asn 64513 --asn 64514 --pool 203.0.113.0/24",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return given.run(cmd, cluster) },
	}
	cluster.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&given.output, "output", "o", "inventory.yaml", "file to write; - for the standard output")
	flags.StringVar(&given.name, "name", "home", "the inventory's metadata.name")
	flags.StringVar(&given.rackBy, "rack-by", "", "label of Nodes whose value is their rack (default: topology.kubernetes.io/zone; where no Node has it, and no router speaks BGP, each network of the Nodes is a rack)")
	flags.StringVar(&given.router, "router", "", "address of the router that speaks BGP with the machines")
	flags.StringVar(&given.routerASN, "router-asn", "", "its AS number")
	flags.StringVar(&given.asn, "asn", "", "the machines' AS number (default: 64514)")
	flags.StringSliceVar(&given.pool, "pool", nil, "addresses that Services get: prefixes, or ranges as in 192.168.1.200-192.168.1.219")
	flags.StringVar(&given.network, "network", "", "network of the machines, with its prefix length, that they answer for VIPs on")
	flags.StringArrayVar(&given.address, "address", nil, "address of a Node that reports none, as in nuc1=192.168.1.11, or nuc1=192.168.1.11,fd00::b; once for each Node (default: what its name resolves to here)")
	flags.BoolVar(&given.takeDefault, "yes", false, "ask nothing: take what is proposed")
	return cmd
}

func (s start) run(cmd *cobra.Command, cluster clusterFlags) error {
	if _, err := os.Stat(s.output); err == nil && s.output != "-" {
		return exit{exitUsage, fmt.Errorf("%s is there already: move it away, or name another file by --output", s.output)}
	}
	docs, err := cluster.objects(cmd.Context(), importer.OwnKinds())
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
	if err := s.check(balancers(options.Sources)); err != nil {
		return exit{exitUsage, err}
	}
	q := asker{in: bufio.NewScanner(cmd.InOrStdin()), out: cmd.ErrOrStderr(), quiet: s.takeDefault}
	if options.Addresses, err = s.addresses(cmd.Context(), &q, importer.WithoutAddress(options, docs...), used, lookUp); err != nil {
		return err
	}
	answers, err := s.answers(&q, options, used, docs)
	if err != nil {
		return err
	}
	options.RackBySubnet = len(balancers(options.Sources)) == 0 && !answers.Router.IsValid() && !answers.Network.IsValid()
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
	return s.next(cmd.OutOrStdout(), text, options.Sources)
}

// check refuses flags that would not count.
func (s start) check(balancers []string) error {
	switch beside := strings.Join(balancers, " and "); {
	case s.router != "" && s.network != "":
		return errors.New("--router and --network: machines announce VIPs to a router, or answer for them on their own network; say one of them")
	case beside == "":
	case s.router != "" || s.routerASN != "" || s.asn != "":
		return fmt.Errorf("--router, --router-asn and --asn are for a cluster without another balancer: routers and AS numbers are those of %s; change them in the inventory", beside)
	case s.network != "":
		return fmt.Errorf("--network is for a cluster without another balancer: %s says where VIPs are announced; change that in the inventory", beside)
	}
	return nil
}

// balancers are the sources that are other balancers.
func balancers(sources []string) []string {
	return slices.DeleteFunc(slices.Clone(sources), func(s string) bool { return s == "nodes" })
}

// next prints the next steps. Beside another balancer that is its takeover, for two of them must not announce one address.
func (s start) next(out io.Writer, text []byte, sources []string) error {
	if others := balancers(sources); len(others) > 0 {
		_, err := fmt.Fprintf(out, `%s is written, with what %s has. Look at it, and check it against the cluster:

  plinth validate --cluster %[1]s

Then take over, machine by machine, as docs/guides/migrate-from-metallb.md says (over BGP) or docs/guides/migrate-on-link.md (on the link).
`, s.output, strings.Join(others, " and "))
		return err
	}
	inv, problems := document.Parse(document.Document{Source: s.output, Data: text})
	if problems.Err() != nil {
		return problems.Err()
	}
	onLink := ""
	if slices.ContainsFunc(inv.Pools, func(p inventory.Pool) bool { return len(p.Links) > 0 }) {
		onLink = " --set agent.onLink=true"
	}
	_, err := fmt.Fprintf(out, `%s is written. Look at it, and then:

  plinth validate --cluster %[1]s
  helm install plinth plinth-*.tgz --namespace plinth-system --create-namespace%s --set inventory.name=%s --set-file 'inventory.files.inventory\.yaml=%[1]s' --wait
  plinth status
`, s.output, onLink, s.name)
	return err
}

// answers returns the values of flags, and for others the answers of a person.
func (s start) answers(asker *asker, options importer.Options, used []netip.Prefix, docs []document.Document) (answers importer.Answers, err error) {
	answers.Used = used
	alone := len(balancers(options.Sources)) == 0
	if alone { // what another balancer has is not asked for
		asker.ask("Address of a router that speaks BGP with the machines", "--router", s.router, "none", func(said string) (err error) {
			if said != "none" && said != "" {
				answers.Router, err = netip.ParseAddr(said)
			}
			return err
		})
	}
	switch {
	case answers.Router.IsValid():
		asker.ask("AS number of the router", "--router-asn", s.routerASN, "", func(said string) (err error) { answers.RouterASN, err = inventory.ParseASN(said); return err })
		asker.ask("AS number of the machines", "--asn", s.asn, "64514", func(said string) (err error) { answers.ASN, err = inventory.ParseASN(said); return err })
	case alone:
		asker.ask("Network of the machines", "--network", s.network, importer.Network(options, docs...), func(said string) (err error) {
			if said != "" {
				answers.Network, err = netip.ParsePrefix(said)
			}
			return err
		})
	}
	if alone || len(s.pool) > 0 {
		proposed := ""
		if block, ok := importer.Free(options, answers, docs...); ok {
			proposed = block.String()
		}
		asker.ask("Addresses that Services get, which no DHCP server gives away", "--pool", strings.Join(s.pool, ","), proposed, func(said string) (err error) {
			answers.Pool, err = ranges(said)
			return err
		})
	}
	return answers, asker.err
}

// ranges reads ranges of addresses with commas between them.
func ranges(text string) ([]inventory.Range, error) {
	return commaSeparated(text, func(part string) (inventory.Range, error) {
		return document.ParseRange(strings.Join(strings.Fields(part), ""))
	})
}

// commaSeparated parses the parts between commas, but for empty ones.
func commaSeparated[T any](text string, parse func(string) (T, error)) (all []T, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		one, err := parse(part)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// asker asks a person, line by line, until one question has no answer.
type asker struct {
	in    *bufio.Scanner
	out   io.Writer
	quiet bool
	err   error
}

// ask takes the value of a flag, or asks until the answer can be taken. The proposed value is the answer where somebody presses Enter, or
// nobody is to be asked.
func (q *asker) ask(question, flag, said, proposed string, take func(string) error) {
	switch {
	case q.err != nil:
	case said != "":
		if err := take(said); err != nil {
			q.err = exit{exitUsage, fmt.Errorf("%s: %w", flag, err)}
		}
	case q.quiet:
		if err := take(proposed); err != nil {
			q.err = exit{exitUsage, fmt.Errorf("%s is missing: %w", flag, err)}
		}
	default:
		q.askPerson(question, flag, proposed, take)
	}
}

func (q *asker) askPerson(question, flag, proposed string, take func(string) error) {
	for {
		fmt.Fprintf(q.out, "%s [%s]: ", question, proposed)
		if !q.in.Scan() {
			fmt.Fprintln(q.out)
			q.err = exit{exitUsage, fmt.Errorf("no answer: say it by %s, or take all that is proposed by --yes", flag)}
			return
		}
		answer := strings.TrimSpace(q.in.Text())
		if answer == "" {
			answer = proposed
		}
		err := take(answer)
		if err == nil {
			return
		}
		fmt.Fprintf(q.out, "%v\n", err)
	}
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
