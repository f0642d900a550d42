package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab/netns"
)

// startMachines starts every machine's kubelet, which runs kube-proxy, and waits
// until all Nodes are registered.
func (l *Lab) startMachines(ctx context.Context) error {
	l.say("machines: a kubelet and a kube-proxy on each")
	if err := l.routeToKubelets(); err != nil {
		return err
	}
	for _, m := range l.Topology.Machines() {
		if err := l.StartKubelet(m.Name); err != nil {
			return err
		}
	}
	return Within(ctx, time.Minute, func(ctx context.Context) error {
		var missing []error
		for _, m := range l.Topology.Machines() {
			_, err := l.Kube.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
			missing = append(missing, err)
		}
		return errors.Join(missing...)
	})
}

// routeToKubelets lets the API server reach kubelets at the addresses of their Nodes.
func (l *Lab) routeToKubelets() error {
	var lines []string
	for n, m := range l.Topology.Machines() {
		lines = append(lines, fmt.Sprintf("route replace %s via %s", l.Topology.MachineAddress(m.Name).V4, managementAddress(l.record.Slot, 11+n)))
	}
	return netns.IP(l.Namespace(controlHost), lines...)
}

// StartKubelet starts the kubelet of a machine.
func (l *Lab) StartKubelet(machine string) error {
	version, err := components.KubernetesVersion()
	if err != nil {
		return err
	}
	command := []string{filepath.Join(l.binaries.plinth, "lab-kubelet"),
		"--node=" + machine,
		"--netns=" + l.Namespace(machine),
		"--kubeconfig=" + l.pki("kubelet-"+machine+".conf"),
		"--system-uuid=" + Machine{Name: machine}.SystemUUID(),
		"--kubernetes=" + version,
		"--kube-proxy=" + l.program("kube-proxy"),
		"--kube-proxy-kubeconfig=" + l.pki("kube-proxy.conf"),
		"--kube-proxy-programs=" + l.proxyPrograms(machine),
		"--kube-proxy-mode=" + l.Topology.proxyMode(),
		"--kube-proxy-min-sync=" + l.Topology.ProxyMinSync.String(),
		"--cluster-cidr=" + PodCIDR4.String() + "," + PodCIDR6.String(),
		"--log-dir=" + filepath.Join(l.Dir(), "logs"),
	}
	for n, m := range l.Topology.Machines() {
		if m.Name != machine {
			continue
		}
		if m.BareTaint {
			command = append(command, "--cloud-provider=")
		}
		if l.Topology.StaticPods {
			v4, v6 := staticPodCIDRs(n)
			command = append(command, "--pod-cidrs="+v4.String()+","+v6.String())
		}
	}
	_, err = l.start(machine, "kubelet-"+machine, nil, command...)
	return err
}

// dead drops all that a machine would send or receive, before anything else
// sees it. Its cables stay plugged in: nobody is told.
const dead = `table inet plinth_lab_dead {
	chain in { type filter hook prerouting priority -500; policy drop; }
	chain out { type filter hook output priority -500; policy drop; }
	chain forward { type filter hook forward priority -500; policy drop; }
}
table arp plinth_lab_dead {
	chain in { type filter hook input priority -500; policy drop; }
	chain out { type filter hook output priority -500; policy drop; }
}`

// KillMachine is a power cut: the machine says nothing more, and none of its
// programs runs on.
func (l *Lab) KillMachine(ctx context.Context, machine string) error {
	_, err := netns.Output(ctx, l.Namespace(machine), "nft", dead)
	return errors.Join(err, l.signalAll(machine, syscall.SIGSTOP))
}

// ReviveMachine undoes KillMachine.
func (l *Lab) ReviveMachine(ctx context.Context, machine string) error {
	_, err := netns.Output(ctx, l.Namespace(machine), "nft", "delete table inet plinth_lab_dead; delete table arp plinth_lab_dead")
	return errors.Join(err, l.signalAll(machine, syscall.SIGCONT))
}

func (l *Lab) signalAll(host string, s syscall.Signal) error {
	pids, err := netns.Pids(l.Namespace(host))
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue // whoever acts on a machine is not one of its programs
		}
		if failed := syscall.Kill(pid, s); failed != syscall.ESRCH { // a program may end meanwhile
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Node returns the Node of a machine.
func (l *Lab) Node(ctx context.Context, machine string) (*corev1.Node, error) {
	return l.Kube.CoreV1().Nodes().Get(ctx, machine, metav1.GetOptions{})
}

// WaitReady waits until all Nodes are Ready and no longer uninitialized.
func (l *Lab) WaitReady(ctx context.Context, limit time.Duration) error {
	return Within(ctx, limit, func(ctx context.Context) error {
		nodes, err := l.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if have, want := len(nodes.Items), len(l.Topology.Machines()); have < want {
			return fmt.Errorf("%d of %d Nodes", have, want)
		}
		var not []error
		for _, n := range nodes.Items {
			not = append(not, nodeReady(&n))
		}
		return errors.Join(not...)
	})
}

// WaitFabric waits until every agent says that its sessions are up and its routes held.
func (l *Lab) WaitFabric(ctx context.Context) error {
	return Within(ctx, 30*time.Second, func(ctx context.Context) error {
		for _, m := range l.Topology.Machines() {
			n, err := l.Node(ctx, m.Name)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "plinth.dev/FabricReady" })
			if i < 0 {
				return fmt.Errorf("node %s has no condition plinth.dev/FabricReady", m.Name)
			}
			if c := n.Status.Conditions[i]; c.Status != corev1.ConditionTrue {
				return fmt.Errorf("node %s: %s: %s", m.Name, c.Type, c.Message)
			}
		}
		return nil
	})
}

func nodeReady(n *corev1.Node) error {
	for _, t := range n.Spec.Taints {
		if t.Key == "node.cloudprovider.kubernetes.io/uninitialized" {
			return fmt.Errorf("node %s: still uninitialized", n.Name)
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s: not Ready", n.Name)
}

// SignalProxy sends a signal to a machine's kube-proxy.
func (l *Lab) SignalProxy(machine string, s syscall.Signal) error {
	pids, err := netns.Pids(l.Namespace(machine))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "kube-proxy" {
			return syscall.Kill(pid, s)
		}
	}
	return fmt.Errorf("no kube-proxy runs on %s", machine)
}

// FlushRules takes away what kube-proxy has in a machine's kernel, as a firewall does that begins with a flush.
func (l *Lab) FlushRules(ctx context.Context, machine string) error {
	_, err := netns.Output(ctx, l.Namespace(machine), "nft", "flush ruleset")
	return err
}

// FailRules has each transaction of a machine's kube-proxy in mode nftables fail until mend is called. What it asks at its start, whether
// the kernel has what it needs, succeeds. With anew it begins with a kube-proxy that starts, on a kernel without rules of its; without,
// it is of one that was started since the first call.
func (l *Lab) FailRules(ctx context.Context, machine string, anew bool) (mend func() error, err error) {
	folder := l.proxyPrograms(machine)
	fails := filepath.Join(folder, "fails")
	mend = func() error { return os.RemoveAll(fails) }
	nft, err := exec.LookPath("nft")
	if err != nil {
		return mend, err
	}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--check*) ;; *-f*) if [ -e %s ]; then echo 'refused by the lab' >&2; exit 1; fi ;; esac\nexec %s \"$@\"\n", fails, nft)
	err = errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "nft"), []byte(script), 0o755), os.WriteFile(fails, nil, 0o600))
	if err != nil || !anew {
		return mend, err
	}
	return mend, errors.Join(l.SignalProxy(machine, syscall.SIGKILL), l.FlushRules(ctx, machine))
}

// proxyPrograms is the folder of programs that a machine's kube-proxy finds before those of the machine, where there is one.
func (l *Lab) proxyPrograms(machine string) string {
	return filepath.Join(l.Dir(), "kube-proxy-"+machine)
}

// WriteRulesAnew has every kube-proxy write all of its rules, by the Service of docs/explanation/announcements.md.
func (l *Lab) WriteRulesAnew(ctx context.Context) error {
	page, err := os.ReadFile(filepath.Join(l.record.Root, "docs/explanation/announcements.md"))
	if err != nil {
		return err
	}
	_, service, _ := strings.Cut(string(page), "delete service write-rules-anew\n")
	service, _, found := strings.Cut(service, "EOF\n")
	if !found {
		return errors.New("the page has no Service write-rules-anew")
	}
	file := filepath.Join(l.Dir(), "write-rules-anew.yaml")
	if err := os.WriteFile(file, []byte(service), 0o600); err != nil {
		return err
	}
	if _, err := l.Kubectl(ctx, "create", "-f", file); err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // as the page does
	_, err = l.Kubectl(ctx, "delete", "service", "write-rules-anew")
	return err
}
