package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"plinth.dev/plinth/test/lab/machine"
)

// The images of a real machine's pods. Each is one static program.
const (
	// WebImage serves what the lab's own kubelet does in its pods.
	WebImage = "images.example/web:v1"
	dnsImage = "images.example/coredns:v1"
)

// makeImages writes the archives that every real machine imports.
func (l *Lab) makeImages(context.Context) error {
	folder := filepath.Join(l.Dir(), "images")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, i := range []struct{ image, program string }{
		{machine.PauseImage, filepath.Join(l.binaries.plinth, "lab-pause")},
		{WebImage, filepath.Join(l.binaries.plinth, "lab-web")},
		{dnsImage, l.program("coredns")},
	} {
		file := filepath.Join(folder, filepath.Base(i.program)+".tar")
		if err := writeImage(file, i.image, i.program); err != nil {
			return err
		}
		l.images = append(l.images, file)
	}
	l.images = append(l.images, l.Topology.Images...)
	return nil
}

// writeImage writes an archive with an image of one program, as docker save does.
func writeImage(file, image, program string) error {
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	inside := filepath.Base(program)
	if err := w.WriteHeader(&tar.Header{Name: inside, Mode: 0o755, Size: int64(len(data))}); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, v1.Config{Entrypoint: []string{"/" + inside}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	return tarball.WriteToFile(file, tag, img)
}
