package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"plinth.dev/plinth/diagnose"
)

// writeStatusText prints a status that fits a screen: racks and pools as tables, and then the
// problems, one a line. What many things have in common is one line.
func writeStatusText(w io.Writer, s diagnose.Status) error {
	return writeStatus(w, s, alike(s.Findings))
}

// writeStatusWide prints a line for each problem of each thing.
func writeStatusWide(w io.Writer, s diagnose.Status) error { return writeStatus(w, s, s.NotWell) }

func writeStatus(out io.Writer, status diagnose.Status, problems []string) error {
	fmt.Fprintf(out, "inventory %s, generation %s\n", cmp.Or(status.Inventory, "none"), cmp.Or(status.Generation, "unknown"))
	if status.Leads != "" {
		fmt.Fprintf(out, "controller %s leads\n", status.Leads)
	}
	fmt.Fprintln(out)
	if err := writeTables(out, status); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nServices of type LoadBalancer: %d\n", status.Services)
	if status.NotKnown != "" {
		fmt.Fprintf(out, "Not known: %s\n", status.NotKnown)
	}
	writeList(out, "\nOut of service:", lines(status.OutOfService))
	if len(problems) == 0 {
		well := "\nNo problems."
		if status.NotKnown != "" {
			well = "\nNo problems in what is known."
		}
		_, err := fmt.Fprintln(out, well)
		return err
	}
	writeList(out, "\nProblems:", problems)
	return nil
}

func writeList(w io.Writer, title string, all []string) {
	if len(all) > 0 {
		fmt.Fprintln(w, title+"\n  "+strings.Join(all, "\n  "))
	}
}

func writeTables(w io.Writer, status diagnose.Status) error {
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(out, "RACK\tMACHINES\tNODES READY\tFABRIC READY\tOUT OF SERVICE")
	for _, r := range status.Racks {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\n", r.Name, r.Machines, r.NodesReady, r.FabricReady, r.OutOfService)
	}
	if len(status.Pools) > 0 {
		fmt.Fprintln(out, "\nPOOL\tSTATE\tVIPS HELD\tFREE")
	}
	for _, p := range status.Pools {
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\n", cmp.Or(p.Name, "-"), p.State, p.VIPs, freeOf(p))
	}
	return out.Flush()
}

// freeOf returns the numbers of a pool's free addresses, by family.
func freeOf(p diagnose.Pool) string {
	var all []string
	for _, f := range p.Families {
		all = append(all, amount(f.Free)+" "+f.Family)
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

// amount is a number that a person can read: nobody counts the addresses of a /64.
func amount(number uint64) string {
	switch {
	case number == math.MaxUint64:
		return "2^64 or more"
	case number >= 1<<24:
		return fmt.Sprintf("more than 2^%d", int(math.Log2(float64(number))))
	}
	return strconv.FormatUint(number, 10)
}

// manyAlike is the number of things with one and the same problem from which on they share a line.
const manyAlike = 4

// alike prints findings, those of many machines, VIPs or Services that differ in the name alone as
// one, in the place of the first.
func alike(all []diagnose.Finding) (out []string) {
	type what struct{ kind, reason, message string }
	names := map[what][]string{}
	for _, f := range all {
		names[what{f.Kind, f.Reason, f.Message}] = append(names[what{f.Kind, f.Reason, f.Message}], f.Name)
	}
	for _, finding := range all {
		same := names[what{finding.Kind, finding.Reason, finding.Message}]
		switch {
		case finding.Name == "" || len(same) < manyAlike:
			out = append(out, finding.String())
		case same[0] == finding.Name:
			out = append(out, finding.String()+"; the same: "+someNames(same[1:]))
		}
	}
	return out
}

func someNames(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more (-o wide has all)", strings.Join(names[:most], ", "), len(names)-most)
}
