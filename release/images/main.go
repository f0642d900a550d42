package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plinth.dev/plinth/release/sbom"
)

func main() {
	var o options
	var architectures string
	flag.StringVar(&o.version, "version", "", "version of the programs, and tag of the images")
	flag.StringVar(&o.revision, "revision", "", "commit that the programs were built from")
	flag.Int64Var(&o.epoch, "epoch", 0, "when the images say that they were made, in seconds since 1970: the commit's time, so that two builds are equal")
	flag.StringVar(&o.registry, "registry", "docker.io/library", "what stands before the names of the images")
	flag.StringVar(&architectures, "architectures", "amd64,arm64", "architectures, separated by commas")
	flag.StringVar(&o.programs, "programs", "", "folder with one folder of programs for each architecture, linux-amd64 and so on")
	flag.StringVar(&o.out, "out", "", "folder that the archives are written to")
	flag.Parse()
	o.architectures = strings.Split(architectures, ",")
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// options say which images are made of what.
type options struct {
	version, revision string
	epoch             int64 // seconds since 1970
	registry          string
	architectures     []string // Go's names
	programs, out     string   // folders
}

func (o options) created() time.Time { return time.Unix(o.epoch, 0).UTC() }

// program is the file of a program for one architecture.
func (o options) program(name, arch string) string {
	return filepath.Join(o.programs, "linux-"+arch, name)
}

// run writes an archive for every image, and an SBOM for every program in it.
func run(o options) error {
	if o.version == "" || o.programs == "" || o.out == "" {
		return errors.New("-version, -programs and -out are needed")
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, p := range shipped {
		file := filepath.Join(o.out, p.name+".tar")
		if err := o.write(p, file); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Printf("%s  %s/%s:%s\n", file, o.registry, p.name, o.version)
	}
	return nil
}

func (o options) write(p program, file string) error {
	index, err := o.index(p)
	if err != nil {
		return err
	}
	for _, arch := range o.architectures {
		bom := filepath.Join(o.out, fmt.Sprintf("%s_linux_%s.cdx.json", p.name, arch))
		if err := sbom.Write(o.program(p.name, arch), o.version, bom); err != nil {
			return fmt.Errorf("SBOM: %w", err)
		}
	}
	return writeArchive(index, file)
}
