package main

import (
	"archive/tar"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: publish ARCHIVE...") }
	flag.Parse()
	if flag.NArg() == 0 { // a release without images would pass for a published one
		flag.Usage()
		os.Exit(2)
	}
	for _, archive := range flag.Args() {
		pushed, err := push(archive, credentials())
		if err != nil {
			fmt.Fprintf(os.Stderr, "publish: %s: %v\n", archive, err)
			os.Exit(1)
		}
		fmt.Println(pushed)
	}
}

// credentials are those of the environment, or else what docker login and its like have left.
func credentials() remote.Option {
	if user, password := os.Getenv("REGISTRY_USER"), os.Getenv("REGISTRY_PASSWORD"); user != "" {
		return remote.WithAuth(&authn.Basic{Username: user, Password: password})
	}
	return remote.WithAuthFromKeychain(authn.DefaultKeychain)
}

// push sends the image of an archive to the name that stands in it, and returns that name with
// the image's digest.
func push(archive string, options ...remote.Option) (string, error) {
	folder, err := os.MkdirTemp("", "publish-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := unpack(archive, folder); err != nil {
		return "", err
	}
	image, full, err := read(folder)
	if err != nil {
		return "", err
	}
	to, err := name.ParseReference(full)
	if err != nil {
		return "", err
	}
	if to.Context().RegistryStr() == name.DefaultRegistry && strings.HasPrefix(to.Context().RepositoryStr(), "library/") {
		return "", fmt.Errorf("it is made for %s, where Docker alone publishes: make release REGISTRY=registry.example.com/plinth first", to.Context().Name())
	}
	if err := remote.WriteIndex(to, image, options...); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	return full + "@" + digest.String(), nil
}

// read finds the image for all platforms in an OCI layout, and its full name.
func read(folder string) (v1.ImageIndex, string, error) {
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, "", err
	}
	top, err := all.IndexManifest()
	if err != nil {
		return nil, "", err
	}
	if len(top.Manifests) != 1 {
		return nil, "", fmt.Errorf("%d images in the archive, want one", len(top.Manifests))
	}
	image, err := all.ImageIndex(top.Manifests[0].Digest)
	return image, top.Manifests[0].Annotations["io.containerd.image.name"], err
}

// unpack writes the files of an archive into a folder, and nothing outside of it.
func unpack(archive, folder string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	inside, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer inside.Close()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			err = unpackFile(inside, h.Name, r)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(inside *os.Root, file string, content io.Reader) error {
	if err := inside.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := inside.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, content); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
