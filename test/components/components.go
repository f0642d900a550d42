package components

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// all lists the programs and the Go package of each.
var all = []struct{ program, pkg string }{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
	{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"},
}

// Find returns the file of every program, by name. What has to be built first,
// once for a version, takes about ten minutes on two cores; say is told how far
// that is.
func Find(ctx context.Context, say func(format string, args ...any)) (map[string]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(root, "test", "controlplane")
	kubernetes, etcd, err := versions(source)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME, else ~/.cache
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "plinth", "controlplane", kubernetes+"-etcd-"+etcd)
	found, missing := locate(cache)
	if len(missing) > 0 {
		say("building Kubernetes %s and etcd %s, once, into %s: %d programs, about ten minutes on two cores", kubernetes, etcd, cache, len(missing))
	}
	for _, pkg := range missing {
		if err := build(ctx, source, pkg, kubernetes, found[programOf(pkg)], say); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// quietly is Find for tests, which ask again and again.
var quietly = sync.OnceValues(func() (map[string]string, error) {
	return Find(context.Background(), func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
})

// File returns the file of one program.
func File(program string) (string, error) {
	found, err := quietly()
	if err != nil {
		return "", err
	}
	file, ok := found[program]
	if !ok {
		return "", fmt.Errorf("%s is no program of the control plane", program)
	}
	return file, nil
}

// locate returns where every program is, or will be, and the packages of those
// that are not there yet.
func locate(cache string) (found map[string]string, missing []string) {
	found = map[string]string{}
	for _, c := range all {
		found[c.program] = filepath.Join(cache, c.program)
		if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && executable(filepath.Join(assets, c.program)) {
			found[c.program] = filepath.Join(assets, c.program)
		}
		if !executable(found[c.program]) {
			missing = append(missing, c.pkg)
		}
	}
	return found, missing
}

func programOf(pkg string) string {
	for _, c := range all {
		if c.pkg == pkg {
			return c.program
		}
	}
	return ""
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var required = regexp.MustCompile(`(?m)^\s*(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3) (v\S+)`)

// versions reads the pinned versions from the module that pins them.
func versions(folder string) (kubernetes, etcd string, err error) {
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

// Root finds the source tree of Plinth: from the working folder upwards, or from
// the folder of this program.
func Root() (string, error) {
	var places []string
	if wd, err := os.Getwd(); err == nil {
		places = append(places, wd)
	}
	if exe, err := os.Executable(); err == nil {
		places = append(places, filepath.Dir(exe))
	}
	for _, d := range places {
		for ; d != "/"; d = filepath.Dir(d) {
			data, _ := os.ReadFile(filepath.Join(d, "go.mod"))
			if strings.HasPrefix(string(data), "module plinth.dev/plinth\n") {
				return d, nil
			}
		}
	}
	return "", errors.New("the source tree of Plinth is neither above the working folder nor above this program")
}
