package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
)

// writeStatusText prints what fits a screen: racks and pools as tables, and then
// the problems, one a line.
func writeStatusText(w io.Writer, s status) error {
	fmt.Fprintf(w, "inventory %s, generation %s\n\n", cmp.Or(s.Inventory, "none"), cmp.Or(s.Generation, "unknown"))
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RACK\tMACHINES\tNODES READY\tFABRIC READY\tOUT OF SERVICE")
	for _, r := range s.Racks {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", r.Name, r.Machines, r.NodesReady, r.FabricReady, r.OutOfService)
	}
	if len(s.Pools) > 0 {
		fmt.Fprintln(t, "\nPOOL\tSTATE\tVIPS HELD")
	}
	for _, p := range s.Pools {
		fmt.Fprintf(t, "%s\t%s\t%d\n", cmp.Or(p.Name, "-"), p.State, p.VIPs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nServices of type LoadBalancer: %d\n", s.Services)
	if s.NotKnown != "" {
		fmt.Fprintf(w, "Not known: %s\n", s.NotKnown)
	}
	if len(s.OutOfService) > 0 {
		fmt.Fprintln(w, "\nOut of service:")
		for _, what := range s.OutOfService {
			fmt.Fprintln(w, "  "+what.String())
		}
		fmt.Fprintln(w)
	}
	if len(s.NotWell) == 0 {
		_, err := fmt.Fprintln(w, "No problems.")
		return err
	}
	if len(s.OutOfService) == 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "Problems:")
	for _, what := range s.NotWell {
		fmt.Fprintln(w, "  "+what)
	}
	return nil
}
