package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"time"

	"plinth.dev/plinth/release/sbom"
)

// platform is one that Go builds for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// platforms says where each program runs: two on the machines of a cluster, the third at
// somebody's desk.
var platforms = map[string][]platform{
	"plinth-cloud-controller-manager": {{"linux", "amd64"}, {"linux", "arm64"}},
	"plinth-agent":                    {{"linux", "amd64"}, {"linux", "arm64"}},
	"plinth":                          {{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}},
}

// file is a program's name on a platform.
func (p platform) file(program string) string {
	if p.os == "windows" {
		return program + ".exe"
	}
	return program
}

// archive is the name of a program's archive.
func (o options) archive(program string, p platform) string {
	name := program + "_" + o.version + "_" + p.String()
	if p.os == "windows" {
		return name + ".zip"
	}
	return name + ".tar.gz"
}

// archives writes an archive of each program for each platform, and an SBOM beside it.
func (o options) archives() error {
	license, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return err
	}
	for program, all := range platforms {
		for _, p := range all {
			built := filepath.Join(o.programs, p.os+"-"+p.arch, p.file(program))
			data, err := os.ReadFile(built)
			if err != nil {
				return err
			}
			files := []content{{"LICENSE", 0o644, license}, {p.file(program), 0o755, data}}
			packed, err := pack(p, files, o.changed())
			if err != nil {
				return err
			}
			if err := o.write(o.archive(program, p), packed); err != nil {
				return err
			}
			bom := filepath.Join(o.out, program+"_"+o.version+"_"+p.String()+".cdx.json")
			if err := sbom.Write(built, o.version, bom); err != nil {
				return err
			}
		}
	}
	return nil
}

// content is a file of an archive.
type content struct {
	name string
	mode int64
	data []byte
}

// pack makes what people of a platform unpack without another program.
func pack(p platform, files []content, changed time.Time) ([]byte, error) {
	if p.os == "windows" {
		return zipped(files, changed)
	}
	return tarred(files, changed)
}

// tarred is a compressed tar file. It holds nothing of who packed it, and when.
func tarred(files []content, changed time.Time) ([]byte, error) {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.data)), ModTime: changed, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := g.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func zipped(files []content, changed time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: changed}
		h.SetMode(os.FileMode(f.mode))
		out, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
