package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// program is a program that has an image.
type program struct {
	name        string // of the program, its file in the image, and the image
	user        string // as an image's configuration has it; empty: root
	description string
}

// shipped are the programs that run in a cluster.
var shipped = []program{
	{"plinth-cloud-controller-manager", "65532:65532", "Plinth's cloud-controller-manager: takes up the inventory, looks after Nodes, gives out VIPs"},
	// Root without capabilities but those that the DaemonSet adds: see deploy/base/agent.yaml.
	{"plinth-agent", "", "Plinth's agent of a machine: announces VIPs and pod CIDRs over BGP, keeps the kernel's routes"},
}

const source = "https://plinth.dev/plinth"

// index is an image for all architectures, under its full name.
func (o options) index(p program) (v1.ImageIndex, error) {
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range o.architectures {
		img, err := o.image(p, arch)
		if err != nil {
			return nil, err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	all = mutate.Annotations(all, o.labels(p)).(v1.ImageIndex)
	// What reads an archive finds the image's name here: containerd under the
	// first key, everything else under the second (OCI image layout, annotations).
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: all, Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name":          fmt.Sprintf("%s/%s:%s", o.registry, p.name, o.version),
			"org.opencontainers.image.ref.name": o.version,
		}},
	}), nil
}

// image is a program for one architecture, and nothing else.
func (o options) image(p program, arch string) (v1.Image, error) {
	data, err := os.ReadFile(o.program(p.name, arch))
	if err != nil {
		return nil, err
	}
	content, err := layer(p.name, data, o.created())
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: content, History: v1.History{CreatedBy: "make images", Created: v1.Time{Time: o.created()}},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.created()}
	config.Config = v1.Config{Entrypoint: []string{"/" + p.name}, User: p.user, Labels: o.labels(p)}
	return mutate.ConfigFile(img, config)
}

// labels are what an image says of itself, under the keys of the OCI image
// specification.
func (o options) labels(p program) map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       p.name,
		"org.opencontainers.image.description": p.description,
		"org.opencontainers.image.version":     o.version,
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.created":     o.created().Format(time.RFC3339),
	}
	if o.revision != "" {
		l["org.opencontainers.image.revision"] = o.revision
	}
	return l
}

// layer is a file system of one program, readable and executable by all, writable by nobody.
func layer(name string, data []byte, changed time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o555, Size: int64(len(data)), ModTime: changed, Format: tar.FormatUSTAR})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
