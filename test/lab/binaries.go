package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// binaries says where the programs are that a lab runs.
type binaries struct {
	folder string            // the lab's own bin: links to all of the control plane
	plinth string            // Plinth's programs and the lab's kubelet
	found  map[string]string // program of the control plane -> file
}

// controlPlane lists the programs of the control plane and the Go package of each.
var controlPlane = []struct{ program, pkg string }{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
	{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
}

// findBinaries finds the control plane where KUBEBUILDER_ASSETS points to or in
// the cache, builds what is in neither, and builds the lab's kubelet.
func (l *Lab) findBinaries(ctx context.Context) (binaries, error) {
	b := binaries{folder: filepath.Join(l.Dir(), "bin"), plinth: filepath.Join(l.record.Root, "bin"), found: map[string]string{}}
	source := filepath.Join(l.record.Root, "test", "controlplane")
	kubernetes, etcd, err := controlPlaneVersions(source)
	if err != nil {
		return b, err
	}
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME, else ~/.cache
	if err != nil {
		return b, err
	}
	cache = filepath.Join(cache, "plinth", "controlplane", kubernetes+"-etcd-"+etcd)
	var missing []string
	for _, c := range controlPlane {
		if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && executable(filepath.Join(assets, c.program)) {
			b.found[c.program] = filepath.Join(assets, c.program)
			continue
		}
		b.found[c.program] = filepath.Join(cache, c.program)
		if !executable(b.found[c.program]) {
			missing = append(missing, c.pkg)
		}
	}
	if len(missing) > 0 {
		l.say("building Kubernetes %s and etcd %s, once, into %s: %d programs, about ten minutes on two cores", kubernetes, etcd, cache, len(missing))
	}
	for _, c := range controlPlane {
		if !executable(b.found[c.program]) {
			if err := l.buildControlPlane(ctx, source, c.pkg, kubernetes, b.found[c.program]); err != nil {
				return b, err
			}
		}
	}
	return b, l.buildTree(ctx, "test", "./lab/cmd/lab-kubelet")
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var required = regexp.MustCompile(`(?m)^\s*(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3) (v\S+)`)

// controlPlaneVersions reads the pinned versions from the module that pins them.
func controlPlaneVersions(folder string) (kubernetes, etcd string, err error) {
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", "", err
	}
	for _, m := range required.FindAllStringSubmatch(string(data), -1) {
		if m[1] == "k8s.io/kubernetes" {
			kubernetes = m[2]
		} else {
			etcd = m[2]
		}
	}
	if kubernetes == "" || etcd == "" {
		return "", "", fmt.Errorf("%s/go.mod pins no k8s.io/kubernetes or no go.etcd.io/etcd/server/v3", folder)
	}
	return kubernetes, etcd, nil
}

func (l *Lab) buildControlPlane(ctx context.Context, source, pkg, version, file string) error {
	if err := asCaller(exec.CommandContext(ctx, "mkdir", "-p", filepath.Dir(file))).Run(); err != nil {
		return fmt.Errorf("making %s: %w", filepath.Dir(file), err)
	}
	name, begun := filepath.Base(file), time.Now()
	l.say("building %s", name)
	done := make(chan struct{})
	defer close(done)
	go func() {
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				l.say("building %s: %s so far", name, time.Since(begun).Round(time.Second))
			}
		}
	}()
	// Without the version in it, clients cannot parse what a server says it is.
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	// Two labs may build at once; each renames a finished file of its own.
	temporary := fmt.Sprintf("%s.%d", file, os.Getpid())
	defer os.Remove(temporary)
	if err := goBuild(ctx, source, "-ldflags", flags, "-o", temporary, pkg); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}

// buildTree builds programs of the source tree into its bin. Without a Go
// toolchain, programs that are there already will do.
func (l *Lab) buildTree(ctx context.Context, module string, pkgs ...string) error {
	bin := filepath.Join(l.record.Root, "bin")
	if _, err := exec.LookPath("go"); errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err := asCaller(exec.CommandContext(ctx, "mkdir", "-p", bin)).Run(); err != nil {
		return fmt.Errorf("making %s: %w", bin, err)
	}
	return goBuild(ctx, filepath.Join(l.record.Root, module), append([]string{"-ldflags", "-s -w", "-o", bin + "/"}, pkgs...)...)
}

func goBuild(ctx context.Context, folder string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := asCaller(cmd).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s in %s: %w\n%s", args[len(args)-1], folder, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// asCaller has a command run as the person who called sudo, so that no file in
// that person's caches and source tree belongs to root.
func asCaller(cmd *exec.Cmd) *exec.Cmd {
	uid, err1 := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	gid, err2 := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 32)
	if err1 == nil && err2 == nil && uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}
