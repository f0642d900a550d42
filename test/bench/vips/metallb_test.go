package vips

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/components"
)

const (
	metallbSpace = "metallb-system"
	speakerPod   = "speaker"
)

// buildMetalLB builds its two programs and takes its resources from its module.
func buildMetalLB(source, folder string) error {
	modfile, err := withoutLimit(source, folder)
	if err != nil {
		return err
	}
	for _, program := range []string{"controller", "speaker"} {
		if err := goBuild(source, folder, "metallb-"+program, "go.universe.tf/metallb/"+program, "-modfile", modfile); err != nil {
			return err
		}
	}
	return copyResources(source, folder)
}

const framework = "sigs.k8s.io/controller-runtime"

// withoutLimit writes a go.mod that has MetalLB built without the limit of 20 requests
// a second that its framework sets: with it, it serves 20 Services a second, and every
// comparison would be with that number. Its newer versions have no such limit.
func withoutLimit(source, folder string) (modfile string, err error) {
	dir, err := moduleDir(source, framework)
	if err != nil {
		return "", err
	}
	// A copy of it, since what the go command keeps is not to be changed.
	changed := filepath.Join(folder, "framework")
	if err := os.CopyFS(changed, os.DirFS(dir)); err != nil {
		return "", err
	}
	if err := rewrite(filepath.Join(changed, "pkg", "client", "config", "config.go"), "cfg.QPS = 20.0", "cfg.QPS = -1"); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace %s => %s\n", framework, changed)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(folder, "go.mod"), nil
}

func rewrite(file, old, new string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), old) {
		return fmt.Errorf("%s does not say %q any more", file, old)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
}

// moduleDir is where a module is, which is downloaded if it is not there yet.
func moduleDir(source, module string) (string, error) {
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = source
	out, err := components.AsCaller(download).Output()
	if err != nil {
		return "", fmt.Errorf("downloading the module %s: %w: %s", module, err, out)
	}
	var there struct{ Dir string }
	if err := json.Unmarshal(out, &there); err != nil {
		return "", fmt.Errorf("where the module %s is: %w", module, err)
	}
	return there.Dir, nil
}

var format = regexp.MustCompile(`(?m)^ *format: int32\n`)

// copyResources copies MetalLB's own definitions of its resources. An ASN has a larger
// maximum there than its format allows, for which a newer API server refuses every
// BGPPeer; it goes without the format.
func copyResources(source, folder string) error {
	dir, err := moduleDir(source, "go.universe.tf/metallb")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no resources in %s: %w", dir, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "crd-"+filepath.Base(f)), format.ReplaceAll(text, nil), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// metallb is MetalLB as its manifest for native BGP starts it, without what needs more
// machines: webhooks, their certificates, and the list of members.
func (s *stand) metallb() contender {
	return contender{
		name:      "metallb",
		deletions: 5, // each takes seconds
		controller: func() *apiserver.Process {
			return s.Spawn(program("metallb-controller"), "--kubeconfig="+s.Kubeconfig, "--namespace="+metallbSpace, "--port=7472", "--log-level=info",
				"--webhook-mode=disabled", "--disable-cert-rotation")
		},
		speaker: func() *apiserver.Process {
			return s.Spawn(program("metallb-speaker"), "--kubeconfig="+s.Kubeconfig, "--namespace="+metallbSpace, "--port=7473", "--log-level=info",
				"--node-name="+machine, "--pod-name="+speakerPod, "--host=127.0.0.1", "--ml-bindaddr=")
		},
	}
}

// installMetalLB applies its resources, with the same router and the same pool.
func (s *stand) installMetalLB() {
	s.b.Helper()
	crds, err := filepath.Glob(program("crd-*.yaml"))
	check(s.b, err)
	for _, f := range crds {
		s.Kubectl("apply", "-f", f)
	}
	s.Kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
	manifest := filepath.Join(s.b.TempDir(), "metallb.yaml")
	check(s.b, os.WriteFile(manifest, fmt.Appendf(nil, `
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s}
spec: {nodeName: %[3]s, containers: [{name: speaker, image: speaker}]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: tor, namespace: %[1]s}
spec: {myASN: %[4]d, peerASN: %[5]d, peerAddress: %[6]s}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: public, namespace: %[1]s}
spec: {addresses: [%[7]q]}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: public, namespace: %[1]s}
spec: {ipAddressPools: [public]}
`, metallbSpace, speakerPod, machine, machineASN, routerASN, routerAddr, pool), 0o600))
	s.Kubectl("apply", "-f", manifest)
}
