package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"plinth.dev/plinth/doctor"
)

// consultation are the flags of doctor.
type consultation struct {
	cluster clusterFlags
	paper   paper
}

// paper are the flags of doctor for its output, and for the bundle that it reads or writes in place of that.
type paper struct {
	output string
	bundle string
	save   string
}

// addTo adds the flags, of what is read unless a bundle is.
func (p *paper) addTo(cmd *cobra.Command, place string) {
	cmd.Flags().StringVarP(&p.output, "output", "o", "text", "text, json or yaml")
	cmd.Flags().StringVar(&p.bundle, "bundle", "", "file to read in place of "+place+"; - for the standard input")
	cmd.Flags().StringVar(&p.save, "save-bundle", "", "file to write what was read to; - for the standard output, in place of the findings")
}

func newDoctorCommand() *cobra.Command {
	var given consultation
	cmd := &cobra.Command{
		Use:   "doctor [PATH...]",
		Short: "Find what stands in the way in a cluster, and what mends it",
		Long: `Find what stands in the way in a cluster, before Plinth is installed there and after: kubelets without a
cloud provider, taints and labels that are left over, another cloud controller manager, balancer or BGP
speaker, pools with addresses that somebody has, kube-proxy's mode, clocks, versions, and what agents say of
routers, links and kernels. Each finding has its name, which plinth explain knows, and the commands that mend
it. Nothing is changed.

The inventory is that in force, or if there is none yet, the one of PATH: a file, a folder, or - for the standard input.

With --save-bundle what was read is written to a file, for whoever is asked for help: the objects reduced to what
is looked at, without Secrets, environments, annotations and labels. With --bundle such a file is read in
place of a cluster.

Exit codes: 0 nothing was found, 1 something was, 2 not all could be looked at, and nothing was found in the rest.`,
		Example: `  plinth doctor
  plinth doctor inventory.yaml
  plinth doctor -o json | jq -r '.findings[].kind'
  plinth doctor --save-bundle bundle.yaml
  plinth doctor --bundle bundle.yaml`,
		Args: usage(cobra.ArbitraryArgs),
		RunE: given.run,
	}
	given.cluster.addTo(cmd)
	given.paper.addTo(cmd, "a cluster")
	cmd.AddCommand(newDoctorMachineCommand())
	return cmd
}

// diagnosis is the output of doctor.
type diagnosis struct {
	Findings []doctor.Finding `json:"findings"`
	Unread   []string         `json:"unread"`          // what could not be looked at, and why
	Notes    []string         `json:"notes,omitempty"` // how some was looked at
}

func (d *consultation) run(cmd *cobra.Command, paths []string) error {
	if d.paper.bundle != "" && len(paths) > 0 {
		return exit{exitUsage, errors.New("--bundle takes the place of a cluster and of its inventory: want no PATH")}
	}
	return d.paper.print(cmd, func() (examination, error) {
		seen, err := d.read(cmd, paths)
		return examination{bundle: seen.Bundle, findings: doctor.Examine(seen), unread: seen.Unread}, err
	})
}

// examination is the state that was read, with the findings there.
type examination struct {
	bundle   func() ([]byte, error)
	findings []doctor.Finding
	unread   []string
	notes    []string
}

// print examines and prints the findings. Its error has the exit code.
func (p *paper) print(cmd *cobra.Command, read func() (examination, error)) error {
	write, err := chosen(doctorWriters, p.output)
	if err != nil {
		return err
	}
	if p.bundle != "" && p.save != "" {
		return exit{exitUsage, errors.New("--bundle reads what --save-bundle wrote: want one of them")}
	}
	seen, err := read()
	if err != nil {
		return err
	}
	if p.save != "" {
		if done, err := p.saved(cmd, seen); done || err != nil {
			return err
		}
	}
	said := diagnosis{Findings: seen.findings, Unread: []string{}}
	for _, unread := range seen.unread {
		said.Unread = append(said.Unread, doctor.Printable(unread))
	}
	for _, note := range seen.notes {
		said.Notes = append(said.Notes, doctor.Printable(note))
	}
	if err := write(cmd.OutOrStdout(), said); err != nil {
		return err
	}
	switch {
	case len(said.Findings) > 0:
		return exit{code: exitDegraded}
	case len(said.Unread) > 0:
		return exit{code: exitError}
	}
	return nil
}

// saved writes the bundle, and tells whether that is all to print.
func (p *paper) saved(cmd *cobra.Command, seen examination) (done bool, err error) {
	text, err := seen.bundle()
	if err != nil {
		return false, err
	}
	if p.save == "-" {
		_, err := cmd.OutOrStdout().Write(text)
		return true, err
	}
	return false, os.WriteFile(p.save, text, 0o600)
}

// read reads a bundle, or a cluster with its inventory.
func (d *consultation) read(cmd *cobra.Command, paths []string) (doctor.Cluster, error) {
	if d.paper.bundle == "" {
		return d.readCluster(cmd, paths)
	}
	return openBundle(cmd, d.paper.bundle, doctor.Open)
}

// openBundle reads a bundle from a file. An error of its content names the file.
func openBundle[T any](cmd *cobra.Command, file string, open func([]byte) (T, error)) (seen T, err error) {
	text, err := bundleText(cmd, file)
	if err != nil {
		return seen, err
	}
	if seen, err = open(text); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return seen, err
}

func bundleText(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

var doctorWriters = map[string]func(io.Writer, diagnosis) error{
	"text": writeDiagnosis,
	"json": printJSON[diagnosis],
	"yaml": printYAML[diagnosis],
}

// writeDiagnosis prints a line for each finding, and what mends it below: commands as they are, to be copied, and in words after a #.
func writeDiagnosis(out io.Writer, diagnosis diagnosis) error {
	var text strings.Builder
	for i, f := range diagnosis.Findings {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "%s: %s: %s\n", f.Object, f.Kind, f.Message)
		for _, mend := range f.Mend {
			switch {
			case mend.Run == "":
				fmt.Fprintf(&text, "  # %s\n", mend.Say)
			case mend.On != "":
				fmt.Fprintf(&text, "  # on %s, as root:\n  %s\n", mend.On, mend.Run)
			default:
				fmt.Fprintf(&text, "  %s\n", mend.Run)
			}
		}
	}
	well := "Nothing stands in the way.\n"
	if len(diagnosis.Unread) > 0 {
		well = "Nothing stands in the way in what could be looked at.\n"
	}
	if len(diagnosis.Findings) == 0 {
		text.WriteString(well)
	}
	for _, unread := range diagnosis.Unread {
		fmt.Fprintf(&text, "Not known: %s\n", unread)
	}
	for _, note := range diagnosis.Notes {
		fmt.Fprintf(&text, "Note: %s\n", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
