package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/test/components"
)

// Options are what two labs of the same shape differ in.
type Options struct {
	Name     string    // empty: DefaultName
	Dir      string    // where kubeconfig, logs and data go; empty: .lab of the source tree, for other names a folder under /var/tmp
	Progress io.Writer // one line a step; nil: silent
}

// Lab is a datacenter that runs.
type Lab struct {
	Topology Topology
	Kube     kubernetes.Interface // as cluster admin, for tests and set-up
	// AgentProgram is the file of the agents that are started from now on; empty: that of
	// the source tree.
	AgentProgram string
	// Installed is the namespace of the programs that are started from now on; empty:
	// PlinthNamespace.
	Installed string
	// JSONLogs has controller and agents that are started from now on write their logs as JSON.
	JSONLogs bool

	mu       sync.Mutex // guards record
	record   *record
	binaries binaries
	images   []string // archives that real machines import
	progress io.Writer
	begun    time.Time
	outside  ports             // of probers
	link     map[string]string // ports at the switch of hosts on a link besides, see AddLink
}

// Start makes a lab: network, control plane, routers and machines whose kubelets
// have registered their Nodes. Plinth does not run yet, see StartPlinth. When
// Start fails it leaves what it made for a look; Down removes it.
func Start(ctx context.Context, t Topology, o Options) (*Lab, error) {
	l, err := prepare(t, o)
	if err != nil {
		return nil, err
	}
	if l.binaries, err = l.findBinaries(ctx); err != nil {
		return nil, err
	}
	if t.Real {
		if err := l.prepareReal(ctx); err != nil {
			return nil, err
		}
	}
	if err := claim(l.record); err != nil {
		return nil, fmt.Errorf("lab %s: %w", l.record.Name, err)
	}
	return l, l.build(ctx)
}

// Open returns a lab that another process has started.
func Open(name string, progress io.Writer) (*Lab, error) {
	if progress == nil {
		progress = io.Discard
	}
	r, err := readRecord(name)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", name, err)
	}
	l := &Lab{Topology: r.Topology, record: r, progress: progress, begun: time.Now()}
	l.binaries = binaries{folder: filepath.Join(l.Dir(), "bin"), plinth: filepath.Join(r.Root, "bin")}
	return l, l.connect()
}

func prepare(t Topology, o Options) (*Lab, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a lab is made of network namespaces and needs root")
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if err := errors.Join(checkName(o.Name), t.validate()); err != nil {
		return nil, err
	}
	root, err := components.Root()
	if err != nil {
		return nil, err
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(root, ".lab")
		if o.Name != DefaultName {
			o.Dir = filepath.Join(otherLabs, o.Name)
		}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return &Lab{
		Topology: t,
		record:   &record{Name: o.Name, Dir: o.Dir, Root: root, Topology: t},
		progress: o.Progress,
		begun:    time.Now(),
	}, nil
}

// build makes what the record has announced, in the order in which it is needed.
func (l *Lab) build(ctx context.Context) error {
	for _, d := range []string{"bin", "logs", "pki"} {
		if err := os.MkdirAll(filepath.Join(l.Dir(), d), 0o755); err != nil {
			return err
		}
	}
	l.say("network: %d racks, %d machines, %d routers", len(l.Topology.Racks), len(l.Topology.Machines()), len(l.Topology.Routers))
	if err := l.buildNetwork(); err != nil {
		return err
	}
	routers := make(chan error, 1)
	go func() { routers <- l.startRouters(ctx) }()
	err := l.startControlPlane(ctx)
	if err := errors.Join(err, <-routers); err != nil {
		return err
	}
	if l.Topology.Real {
		return l.startRealMachines(ctx)
	}
	return l.startMachines(ctx)
}

// Dir is the folder with kubeconfig, bin, logs, certificates and etcd's data.
func (l *Lab) Dir() string { return l.record.Dir }

// Name tells the lab from others on the same machine.
func (l *Lab) Name() string { return l.record.Name }

// Kubeconfig is the file that makes an admin of who reads it, from the host.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.Dir(), "kubeconfig") }

func (l *Lab) say(format string, args ...any) {
	fmt.Fprintf(l.progress, "%6.1fs  %s\n", time.Since(l.begun).Seconds(), fmt.Sprintf(format, args...))
}

// SaveLogs copies the logs of all programs to a folder, for a look after Down.
func (l *Lab) SaveLogs(folder string) error {
	os.RemoveAll(folder)
	return os.CopyFS(folder, os.DirFS(filepath.Join(l.Dir(), "logs")))
}

// Hosts returns the names of all hosts that have a namespace, sorted.
func (l *Lab) Hosts() []string {
	hosts := []string{clientHost, controlHost, switchHost}
	for _, r := range l.Topology.Routers {
		hosts = append(hosts, r.Name)
	}
	for _, rack := range l.Topology.Racks {
		for _, m := range rack.Machines {
			hosts = append(hosts, m.Name)
		}
		hosts = append(hosts, rack.Hosts...)
	}
	slices.Sort(hosts)
	return hosts
}
