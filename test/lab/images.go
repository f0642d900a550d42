package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

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
		one := []File{{From: i.program, To: "/" + filepath.Base(i.program)}}
		if err := WriteImage(file, i.image, one); err != nil {
			return err
		}
		l.images = append(l.images, file)
	}
	l.images = append(l.images, l.Topology.Images...)
	return nil
}

// File is a file of an image: a copy of one of the host's, or a link to another of the image.
type File struct{ From, Link, To string }

// WriteImage writes an archive with an image of some files, as docker save does. The
// first is its entry point.
func WriteImage(archive, image string, files []File) error {
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	content, err := pack(files)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
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
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{files[0].To}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, img)
}

// pack is the layer of an image.
func pack(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}); err != nil {
		return nil, err
	}
	for _, f := range files {
		inside := strings.TrimPrefix(f.To, "/")
		if f.Link != "" {
			if err := w.WriteHeader(&tar.Header{Name: inside, Typeflag: tar.TypeSymlink, Linkname: f.Link, Mode: 0o777}); err != nil {
				return nil, err
			}
			continue
		}
		data, err := os.ReadFile(f.From)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: inside, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
