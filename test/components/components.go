package components

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// program is one that is built from a pinned module, once for a version.
type program struct {
	name   string
	source string // folder of the module that pins it, in test/
	pkg    string
	tags   string // of go build
	cgo    bool   // is C in part, and needs gcc
	test   bool   // is a test's binary
}

const kubernetesSource = "controlplane"

// controlPlane lists what a cluster has besides its machines.
var controlPlane = []program{
	{name: "etcd", source: kubernetesSource, pkg: "go.etcd.io/etcd/server/v3"},
	{name: "etcdutl", source: kubernetesSource, pkg: "go.etcd.io/etcd/etcdutl/v3"},
	{name: "kubectl", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kube-apiserver", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kube-apiserver"},
	{name: "kube-controller-manager", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{name: "kube-scheduler", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kube-scheduler"},
	{name: "kube-proxy", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kube-proxy"},
}

// node lists what runs on a real machine of a cluster, and in its pods.
var node = []program{
	{name: "kubelet", source: kubernetesSource, pkg: "k8s.io/kubernetes/cmd/kubelet"},
	{name: "containerd", source: "node/containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd", tags: containerdTags},
	{name: "containerd-shim-runc-v2", source: "node/containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", tags: containerdTags},
	{name: "ctr", source: "node/containerd", pkg: "github.com/containerd/containerd/v2/cmd/ctr", tags: containerdTags},
	{name: "runc", source: "node/runc", pkg: "github.com/opencontainers/runc", tags: "seccomp", cgo: true},
	{name: "bridge", source: "node/cni", pkg: "github.com/containernetworking/plugins/plugins/main/bridge"},
	{name: "loopback", source: "node/cni", pkg: "github.com/containernetworking/plugins/plugins/main/loopback"},
	{name: "host-local", source: "node/cni", pkg: "github.com/containernetworking/plugins/plugins/ipam/host-local"},
	{name: "portmap", source: "node/cni", pkg: "github.com/containernetworking/plugins/plugins/meta/portmap"},
	{name: "coredns", source: "node/dns", pkg: "github.com/coredns/coredns"},
	{name: "helm", source: "node/helm", pkg: "helm.sh/helm/v4/cmd/helm"},
}

// File systems that the lab's machines do not have, and that want C.
const containerdTags = "no_btrfs no_devmapper no_zfs"

// upstream lists Kubernetes' own end-to-end tests, and the program in their pods.
var upstream = []program{
	{name: "agnhost", source: kubernetesSource, pkg: "k8s.io/kubernetes/test/images/agnhost"},
	{name: "e2e.test", source: kubernetesSource, pkg: "k8s.io/kubernetes/test/e2e", test: true},
}

// Find returns the file of every program of a control plane, by name. What has to
// be built first, once for a version, takes about ten minutes on two cores; say is
// told how far that is.
func Find(ctx context.Context, say func(format string, args ...any)) (map[string]string, error) {
	return find(ctx, controlPlane, say)
}

// FindNode returns the file of every program that a real machine runs, as Find does.
func FindNode(ctx context.Context, say func(format string, args ...any)) (map[string]string, error) {
	return find(ctx, node, say)
}

// Helm returns the file of helm, which is built where it is not there.
func Helm(ctx context.Context) (string, error) {
	return one(ctx, slices.DeleteFunc(slices.Clone(node), func(p program) bool { return p.name != "helm" }))
}

// Kine returns the file of kine, which speaks as etcd does and keeps everything in SQLite, and is built where it is not there.
func Kine(ctx context.Context) (string, error) {
	return one(ctx, []program{{name: "kine", source: "node/kine", pkg: "github.com/k3s-io/kine"}})
}

// one returns the file of the only program of a set.
func one(ctx context.Context, set []program) (string, error) {
	found, err := find(ctx, set, func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
	return found[set[0].name], err
}

// GarbageVariable is the GOGC of Kubernetes' programs: where all tests run, processors are scarcer than memory. Benchmarks
// leave it alone.
const GarbageVariable = "PLINTH_TEST_GOGC"

// Environment is what programs of Kubernetes have in theirs besides.
func Environment() []string {
	if percent := os.Getenv(GarbageVariable); percent != "" {
		return []string{"GOGC=" + percent}
	}
	return nil
}

// FindUpstream returns Kubernetes' own tests, as Find does. Only the newest version's are pinned.
func FindUpstream(ctx context.Context, say func(format string, args ...any)) (map[string]string, error) {
	switch chosen, err := Chosen(); {
	case err != nil:
		return nil, err
	case chosen.source != kubernetesSource:
		return nil, fmt.Errorf("%s=%s: Kubernetes' own tests are pinned for the newest version alone", KubernetesVariable, chosen.Minor)
	}
	return find(ctx, upstream, say)
}

func find(ctx context.Context, set []program, say func(format string, args ...any)) (map[string]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME, else ~/.cache
	if err != nil {
		return nil, err
	}
	cache = filepath.Join(cache, "plinth")
	chosen, err := Chosen()
	if err != nil {
		return nil, err
	}
	found, missing := map[string]string{}, []program(nil)
	for _, p := range set {
		folder := filepath.Join(cache, kubernetesSource, chosen.Kubernetes+"-etcd-"+chosen.Etcd)
		if p.source == kubernetesSource {
			p.source = chosen.source
		} else {
			pin, err := pinOf(filepath.Join(root, "test", p.source))
			if err != nil {
				return nil, err
			}
			folder = filepath.Join(cache, "node", pin)
		}
		found[p.name] = place(folder, p.name)
		if !executable(found[p.name]) {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		say("building %d programs of Kubernetes %s and around it, once, into %s: about two minutes each on two cores", len(missing), chosen.Kubernetes, cache)
	}
	for _, p := range missing {
		if err := build(ctx, filepath.Join(root, "test", p.source), p, chosen.Kubernetes, found[p.name], say); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// place is where a program is, or will be.
func place(cache, name string) string {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets != "" && os.Getenv(KubernetesVariable) == "" && executable(filepath.Join(assets, name)) {
		return filepath.Join(assets, name)
	}
	return filepath.Join(cache, name)
}

// pinOf names all that a module pins.
func pinOf(folder string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return filepath.Base(folder) + "-" + hex.EncodeToString(sum[:6]), nil
}

// quietly is Find for tests, which ask again and again.
var quietly = sync.OnceValues(func() (map[string]string, error) {
	return Find(context.Background(), func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) })
})

// File returns the file of one program of the control plane.
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

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
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

// KubernetesVersion is the version of Kubernetes that all is built of.
func KubernetesVersion() (string, error) {
	p, err := Chosen()
	return p.Kubernetes, err
}
