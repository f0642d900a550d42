package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// oneFile are the manifests for who has neither Helm nor kustomize. There is no inventory in
// them: that is written by who installs them.
var oneFile = []struct {
	name          string
	kustomization string
}{
	{"install.yaml", "resources: [../deploy/base]\ncomponents: [../deploy/components/own-namespace]\n"},
	{"install-one-controller.yaml", "resources: [../deploy/base]\ncomponents: [../deploy/components/own-namespace]\nreplicas: [{name: plinth-cloud-controller-manager, count: 1}]\n"},
	{"install-on-link.yaml", "resources: [../deploy/base]\ncomponents: [../deploy/components/on-link, ../deploy/components/own-namespace]\n"},
	{"install-on-link-one-controller.yaml", "resources: [../deploy/base]\ncomponents: [../deploy/components/on-link, ../deploy/components/own-namespace]\nreplicas: [{name: plinth-cloud-controller-manager, count: 1}]\n"},
	{"install-webhook.yaml", "resources: [../deploy/base]\ncomponents: [../deploy/components/inventory-webhook, ../deploy/components/own-namespace]\n"},
	{"deny-external-ips.yaml", "components: [../deploy/components/deny-external-ips]\n"},
}

// manifests writes what `kubectl kustomize` prints of deploy/, with the release's images.
func (o options) manifests() error {
	disk := filesys.MakeFsInMemory()
	deploy := filepath.Join(o.root, "deploy")
	err := filepath.WalkDir(deploy, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(o.root, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return disk.WriteFile("/"+filepath.ToSlash(name), data)
	})
	if err != nil {
		return err
	}
	for _, m := range oneFile {
		text, err := o.manifest(disk, m.kustomization)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if err := o.write(m.name, append([]byte("# Plinth "+o.version+"\n"), text...)); err != nil {
			return err
		}
	}
	return nil
}

func (o options) manifest(disk filesys.FileSystem, kustomization string) ([]byte, error) {
	var k strings.Builder
	k.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" + kustomization + "images:\n")
	for _, name := range images {
		fmt.Fprintf(&k, "  - {name: %s, newName: %s/%s, newTag: %s}\n", name, o.registry, name, o.version)
	}
	if err := disk.WriteFile("/release/kustomization.yaml", []byte(k.String())); err != nil {
		return nil, err
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/release")
	if err != nil {
		return nil, err
	}
	return objects.AsYaml()
}
