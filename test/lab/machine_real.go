package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab/machine"
	"plinth.dev/plinth/test/lab/netns"
)

// ControlPlaneLabel is on the Node of a control plane, here on that of the first
// machine: Plinth's controller runs nowhere else.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// prepareReal finds what real machines run, and builds what runs in their pods.
func (l *Lab) prepareReal(ctx context.Context) error {
	found, err := components.FindNode(ctx, l.say)
	if err != nil {
		return err
	}
	for name, file := range found {
		l.binaries.found[name] = file
	}
	return l.buildTree(ctx, "test", "./lab/cmd/lab-machine", "./lab/cmd/lab-csi", "./lab/cmd/lab-pause", "./lab/cmd/lab-web")
}

// StartMachine switches a real machine on.
func (l *Lab) StartMachine(name string) error {
	file := l.pki("machine-" + name + ".json")
	if err := l.machineConfig(name).Write(file); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(l.binaries.plinth, "lab-machine"), file)
	cmd.Env, cmd.Dir = append(os.Environ(), "PATH="+filepath.Dir(l.program("containerd"))+":"+os.Getenv("PATH")), "/"
	_, err := l.startWith(startIsolated, name, machineName(name), cmd)
	return err
}

func machineName(name string) string { return "machine-" + name }

// startIsolated starts a command in a network namespace, and in new ones of every
// other kind but cgroups, which it enters itself.
func startIsolated(namespace string, cmd *exec.Cmd) error {
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	return netns.Start(namespace, cmd)
}

func (l *Lab) machineConfig(name string) machine.Config {
	programs := map[string]string{"lab-csi": filepath.Join(l.binaries.plinth, "lab-csi")}
	for program, file := range l.binaries.found {
		programs[program] = file
	}
	l.mu.Lock()
	m := *l.Topology.machine(name)
	l.mu.Unlock()
	return machine.Config{
		Name: name, Lab: l.record.Name, Disk: l.disk(name), Volumes: filepath.Join(l.Dir(), "volumes"),
		MachineID: idOf("disk", l.record.Name, name, fmt.Sprint(m.Disks)), SystemUUID: m.SystemUUID(),
		Programs: programs, Images: l.images,
		CA: l.pki("ca.crt"), Kubeconfig: l.pki("kubelet-" + name + ".conf"), ProxyConf: l.pki("kube-proxy.conf"),
		ProxyMode: l.Topology.proxyMode(), PodCIDRs: PodCIDR4.String() + "," + PodCIDR6.String(),
		ClusterDNS: clusterDNS.String(),
		Masquerade: map[string][]string{
			"ip":  {PodCIDR4.String(), ServiceCIDR4.String()},
			"ip6": {PodCIDR6.String(), ServiceCIDR6.String()},
		},
	}
}

func (t Topology) proxyMode() string {
	if t.ProxyMode == "" {
		return "nftables"
	}
	return t.ProxyMode
}

// startRealMachines starts all machines, and does what whoever sets up a cluster
// does: DNS for its pods, and the label of a control plane for the first machine.
func (l *Lab) startRealMachines(ctx context.Context) error {
	made, err := machine.MakePlaces()
	l.mu.Lock()
	others, more := placesOfOthers(l.record.Name)
	l.record.Places = slices.Concat(l.record.Places, made, others)
	saved := l.record.save()
	l.mu.Unlock()
	if err := errors.Join(err, more, saved, l.makeImages(ctx), l.routeToKubelets()); err != nil {
		return err
	}
	l.say("machines: containerd, a kubelet and kube-proxy (%s) on each", l.Topology.proxyMode())
	for _, m := range l.Topology.Machines() {
		if err := l.StartMachine(m.Name); err != nil {
			return err
		}
	}
	if err := Within(ctx, 2*time.Minute, l.registered); err != nil {
		return fmt.Errorf("%w\n%s", err, l.logTail(machineName(l.Topology.Machines()[0].Name)))
	}
	if err := l.giveStaticPods(ctx); err != nil {
		return err
	}
	first := l.Topology.Machines()[0].Name
	label := []byte(fmt.Sprintf(`{"metadata":{"labels":{%q:""}}}`, ControlPlaneLabel))
	_, err = l.Kube.CoreV1().Nodes().Patch(ctx, first, types.MergePatchType, label, metav1.PatchOptions{})
	return errors.Join(err, l.startDNS(ctx))
}

// giveStaticPods gives the Nodes of a topology with StaticPods their pod CIDRs, in the place of a controller manager that gives them away.
func (l *Lab) giveStaticPods(ctx context.Context) error {
	if !l.Topology.StaticPods {
		return nil
	}
	for n, m := range l.Topology.Machines() {
		v4, v6 := staticPodCIDRs(n)
		given := []byte(fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":[%[1]q,%q]}}`, v4, v6))
		if _, err := l.Kube.CoreV1().Nodes().Patch(ctx, m.Name, types.MergePatchType, given, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// registered says which machines have no Node yet.
func (l *Lab) registered(ctx context.Context) error {
	var missing []error
	for _, m := range l.Topology.Machines() {
		_, err := l.Kube.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		missing = append(missing, err)
	}
	return errors.Join(missing...)
}

// PowerOff ends all that a real machine runs, and cuts its cables.
func (l *Lab) PowerOff(ctx context.Context, name string) error {
	_, err := netns.Output(ctx, l.Namespace(name), "nft", dead)
	return errors.Join(err, l.kill(ctx, machineName(name)))
}

// PowerOn switches a machine on again, with the disk that it had.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	return l.StartMachine(name) // which also clears the rules that were its cables' cut
}

// InMachine runs a program in all namespaces of a machine and returns what it printed.
func (l *Lab) InMachine(ctx context.Context, name string, command ...string) (string, error) {
	p, ok := l.Process(machineName(name))
	if !ok {
		return "", fmt.Errorf("machine %s is off", name)
	}
	enter := []string{"nsenter", "-t", fmt.Sprint(p.Pid), "-a", "env", "PATH=" + filepath.Dir(l.program("containerd")) + ":" + os.Getenv("PATH")}
	out, err := exec.CommandContext(ctx, enter[0], slices.Concat(enter[1:], command)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%v on machine %s: %w: %s", command, name, err, out)
	}
	return string(out), nil
}

// placesOfOthers returns what other labs have made of the host's folders and files for
// their real machines, and will remove: whoever is last is to do that, for a place that is
// removed is gone for every machine that has mounted something over it.
func placesOfOthers(name string) (places []string, err error) {
	names, err := Names()
	for _, other := range names {
		if other == name {
			continue
		}
		if r, readErr := readRecord(other); readErr == nil { // or it goes away just now
			places = append(places, r.Places...)
		}
	}
	slices.Sort(places) // a folder before what is in it
	return slices.Compact(places), err
}

// removePlaces removes what real machines needed of the host, unless another lab needs it,
// where nobody has put anything there since.
func removePlaces(name string, places []string) error {
	others, err := placesOfOthers(name)
	if err != nil {
		return err
	}
	slices.Sort(places)
	for _, p := range slices.Backward(slices.Compact(places)) {
		if _, needed := slices.BinarySearch(others, p); needed {
			continue
		}
		if info, err := os.Stat(p); err == nil && (info.IsDir() || info.Size() == 0) {
			os.Remove(p) // fails where something is in it
		}
	}
	return nil
}

// WaitPods waits until all pods of a namespace that fit a selector are ready, and
// there is one at least.
func (l *Lab) WaitPods(ctx context.Context, limit time.Duration, namespace, selector string) error {
	return Within(ctx, limit, func(ctx context.Context) error {
		list, err := l.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return fmt.Errorf("no pod of namespace %s has %s", namespace, selector)
		}
		var not []error
		for _, p := range list.Items {
			if !podReady(p) {
				not = append(not, fmt.Errorf("pod %s is not ready: %s", p.Name, podStory(p)))
			}
		}
		return errors.Join(not...)
	})
}

// podStory says why a pod is where it is, as far as its status knows.
func podStory(p corev1.Pod) string {
	story := string(p.Status.Phase)
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			story += "; " + c.Message
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			story += fmt.Sprintf("; container %s: %s %s", c.Name, w.Reason, w.Message)
		}
	}
	return story
}
