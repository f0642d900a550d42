package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// images are the programs that have an image.
var images = []string{"plinth-agent", "plinth-cloud-controller-manager"}

// copyImages adds the images, each for all its platforms, as `make images` made them.
func (o options) copyImages() error {
	for _, name := range images {
		if err := copyFile(filepath.Join(o.images, name+".tar"), filepath.Join(o.out, name+"_"+o.version+"_image.oci.tar")); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

const sumsFile = "SHA256SUMS"

// sums writes the checksums of all that is there, as sha256sum --check reads them.
func (o options) sums() error {
	entries, err := os.ReadDir(o.out) // sorted
	if err != nil {
		return err
	}
	var all strings.Builder
	for _, e := range entries {
		sum, err := checksum(filepath.Join(o.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s  %s\n", sum, e.Name())
	}
	return o.write(sumsFile, []byte(all.String()))
}

// checksum is the SHA-256 of a file, in hexadecimal.
func checksum(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := sha256.New()
	if _, err := io.Copy(h, in); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
