package components

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// KubernetesVariable is the environment variable that says of which Kubernetes all
// programs are, as "1.34": the control plane, kubectl, kube-proxy and the kubelet. Empty:
// the newest that is pinned. Where it is set, KUBEBUILDER_ASSETS does not count.
const KubernetesVariable = "PLINTH_TEST_KUBERNETES"

// Pin is a version of Kubernetes of which the tests can run.
type Pin struct {
	Minor      string // "1.34"
	Kubernetes string // "v1.34.10"
	Etcd       string // "v3.6.4"
	source     string // folder of the module that pins it, in test/
}

// Pins returns all versions of Kubernetes that test/controlplane pins, the oldest first.
func Pins() ([]Pin, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	older, err := filepath.Glob(filepath.Join(root, "test", kubernetesSource, "v*", "go.mod"))
	if err != nil {
		return nil, err
	}
	sources := []string{kubernetesSource}
	for _, file := range older {
		sources = append(sources, filepath.Join(kubernetesSource, filepath.Base(filepath.Dir(file))))
	}
	var pins []Pin
	for _, source := range sources {
		p, err := readPin(filepath.Join(root, "test"), source)
		if err != nil {
			return nil, err
		}
		pins = append(pins, p)
	}
	slices.SortFunc(pins, func(a, b Pin) int { return cmp.Compare(a.minor(), b.minor()) })
	return pins, nil
}

// minor is the second number of the version.
func (p Pin) minor() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(p.Minor, "1."))
	return n
}

// Chosen returns the version that KubernetesVariable names.
func Chosen() (Pin, error) {
	pins, err := Pins()
	if err != nil {
		return Pin{}, err
	}
	return Choose(pins, os.Getenv(KubernetesVariable))
}

// Choose returns the pin of a version, as "1.34"; of none the newest.
func Choose(pins []Pin, minor string) (Pin, error) {
	if minor == "" {
		return pins[len(pins)-1], nil
	}
	var all []string
	for _, p := range pins {
		if p.Minor == minor {
			return p, nil
		}
		all = append(all, p.Minor)
	}
	return Pin{}, fmt.Errorf("%s=%s: test/%s pins no such Kubernetes, but %s", KubernetesVariable, minor, kubernetesSource, strings.Join(all, ", "))
}

var required = regexp.MustCompile(`(?m)^\s*(k8s\.io/kubernetes|go\.etcd\.io/etcd/server/v3) (v\S+)`)

// readPin reads the versions that a module pins.
func readPin(test, source string) (Pin, error) {
	file := filepath.Join(test, source, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return Pin{}, err
	}
	p := Pin{source: source}
	for _, m := range required.FindAllStringSubmatch(string(data), -1) {
		if m[1] == "k8s.io/kubernetes" {
			p.Kubernetes = m[2]
		} else {
			p.Etcd = m[2]
		}
	}
	if p.Kubernetes == "" || p.Etcd == "" {
		return Pin{}, fmt.Errorf("%s pins no k8s.io/kubernetes or no go.etcd.io/etcd/server/v3", file)
	}
	p.Minor = strings.TrimPrefix(p.Kubernetes[:strings.LastIndex(p.Kubernetes, ".")], "v")
	return p, nil
}
