package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	var only string
	flag.StringVar(&o.version, "version", "", "version of the release, such as v1.2.3")
	flag.Int64Var(&o.epoch, "epoch", 0, "time of every file in an archive, in seconds since 1970: the commit's, so that two releases of it are equal")
	flag.StringVar(&o.registry, "registry", "", "where the images will be pulled from")
	flag.StringVar(&o.download, "download", "", "URL under which the folder of each version will lie")
	flag.StringVar(&o.source, "source", "", "URL under which the repository's files of each version lie")
	flag.StringVar(&o.programs, "programs", "", "folder with one folder of programs for each platform, linux-amd64 and so on")
	flag.StringVar(&o.images, "images", "", "folder with the images")
	flag.StringVar(&o.root, "root", "", "the repository")
	flag.StringVar(&o.out, "out", "", "folder that the release is written to; what is in it is replaced")
	flag.StringVar(&only, "only", "", "make these parts alone, separated by commas: "+strings.Join(names(), ", "))
	flag.Parse()
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// options say which release is made of what.
type options struct {
	version                     string
	epoch                       int64 // seconds since 1970
	registry, download, source  string
	programs, images, root, out string   // folders
	only                        []string // parts; none: all
}

func (o options) changed() time.Time { return time.Unix(o.epoch, 0).UTC() }

// number is the version as Helm wants it: without its v.
func (o options) number() string { return strings.TrimPrefix(o.version, "v") }

func (o options) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(o.out, name), data, 0o644)
}

// parts of a release, in the order in which they are made: what has checksums of others
// comes after them.
var parts = []struct {
	name string
	make func(options) error
}{
	{"programs", options.archives},
	{"images", options.copyImages},
	{"chart", options.packageChart},
	{"manifests", options.manifests},
	{"krew", options.krew},
	{"notes", options.notes},
	{"sums", options.sums},
}

func names() []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

// semantic is a version as https://semver.org has it, with the v of Go and of git tags.
// Helm takes no other, and a + is no letter of an image's tag.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func run(o options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := o.tracked("deploy"); err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, p := range parts {
		if len(o.only) > 0 && !slices.Contains(o.only, p.name) {
			continue
		}
		if err := p.make(o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (o options) validate() error {
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("-only %s: the parts are %s", name, strings.Join(names(), ", "))
		}
	}
	switch {
	case !semantic.MatchString(o.version):
		return fmt.Errorf("-version %q: want one such as v1.2.3 or v1.2.3-rc.1", o.version)
	case o.root == "" || o.out == "":
		return errors.New("-root and -out are needed")
	case o.registry == "" || o.download == "" || o.source == "":
		return errors.New("-registry, -download and -source are needed: chart, manifests, krew's manifest and the notes name them")
	}
	return nil
}
