package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	chartVersion    = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	chartRepository = regexp.MustCompile(`repository: (plinth-[a-z-]+)`)
)

// packageChart writes the chart as `helm package` would, for this version and its images.
func (o options) packageChart() error {
	folder := filepath.Join(o.root, "deploy/helm/plinth")
	var files []content
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") && d.Name() != ".helmignore" {
			return fmt.Errorf("%s: a hidden file in the chart", name)
		}
		if d.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if data, err = o.stamp(name, data); err != nil {
			return err
		}
		files = append(files, content{"plinth/" + filepath.ToSlash(name), 0o644, data})
		return nil
	})
	if err != nil {
		return err
	}
	packed, err := tarred(files, o.changed())
	if err != nil {
		return err
	}
	return o.write("plinth-"+o.number()+".tgz", packed)
}

// stamp writes the version and the images of the release into the chart's files that name them.
func (o options) stamp(name string, data []byte) ([]byte, error) {
	places, replacement := (*regexp.Regexp)(nil), ""
	switch name {
	case "Chart.yaml":
		places, replacement = chartVersion, "${1}: "+o.number()
	case "values.yaml":
		places, replacement = chartRepository, "repository: "+o.registry+"/${1}"
	case "README.md": // a package has no files beside it
		return bytes.ReplaceAll(data, []byte("](../../../"), []byte("]("+strings.TrimSuffix(o.source, "/")+"/"+o.version+"/")), nil
	default:
		return data, nil
	}
	if n := len(places.FindAll(data, -1)); n != 2 {
		return nil, fmt.Errorf("%s: %d places match %q, want two", name, n, places)
	}
	return places.ReplaceAll(data, []byte(replacement)), nil
}
