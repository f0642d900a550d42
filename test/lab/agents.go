package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/lab/container"
	"plinth.dev/plinth/test/lab/kubelet"
	"plinth.dev/plinth/test/lab/supervisor"
)

// StartAgent starts a machine's plinth-agent with the agents' service account. It comes back when
// it has ended, until it is stopped.
func (l *Lab) StartAgent(ctx context.Context, machine string, flags ...string) error {
	file := l.pki("agent-" + machine + ".conf")
	node, err := l.Node(ctx, machine)
	if err != nil {
		return err
	}
	// The admission policy asks a token which Node it is of. In a cluster it is
	// bound to a pod there; the lab's agents are no pods, so to the Node itself.
	bound := &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID}
	if err := l.accountKubeconfig(ctx, agentAccount, file, bound); err != nil {
		return err
	}
	return l.StartAgentAgain(machine, flags...)
}

// StartAgentAgain starts a machine's agent with the token that it had, which
// works while the API server does not. It runs as deploy/base says, and has those rights alone. As one that is no pod it
// listens where the API server reaches it.
func (l *Lab) StartAgentAgain(machine string, flags ...string) error {
	return l.startAgent(machine, l.Topology.onLink(), flags)
}

// StartAgentOfBase starts a machine's agent as deploy/base says, also where VIPs are on the link and somebody has
// forgotten deploy/components/on-link.
func (l *Lab) StartAgentOfBase(machine string) error { return l.startAgent(machine, false, nil) }

func (l *Lab) startAgent(machine string, onLink bool, flags []string) error {
	set, err := agentManifest(l.record.Root)
	if err != nil {
		return err
	}
	spec := set.Spec.Template.Spec
	if onLink {
		added, err := onLinkCapabilities(l.record.Root)
		if err != nil {
			return err
		}
		c := spec.Containers[0].SecurityContext.Capabilities
		c.Add = append(c.Add, added...)
	}
	granted, err := rights(spec)
	if err != nil {
		return err
	}
	state := filepath.Join(l.Dir(), "agents", machine)
	granted.Root = filepath.Join(runDir(l.record.Name), "root")
	if err := errors.Join(os.MkdirAll(state, 0o700), os.MkdirAll(granted.Root, 0o700)); err != nil {
		return err
	}
	id, err := l.writeMachineID(machine)
	if err != nil {
		return err
	}
	if l.JSONLogs {
		flags = append([]string{"--log-format=json"}, flags...)
	}
	kubeconfig := l.pki("agent-" + machine + ".conf")
	granted.Mounts = []container.Mount{
		{From: id, To: machineID},
		{From: cmp.Or(l.AgentProgram, filepath.Join(l.binaries.plinth, "plinth-agent")), To: agentProgram},
		{From: kubeconfig, To: kubeconfig},
		{From: state, To: spec.Containers[0].VolumeMounts[0].MountPath, Write: true},
	}
	return l.supervise(context.Background(), machine, supervisor.Program{
		Name: agentName(machine), Env: []string{"NODE_NAME=" + machine}, Dir: "/", Container: &granted,
		Command: slices.Concat([]string{agentProgram}, agentArgs(spec, l.installed()), []string{"--kubeconfig=" + kubeconfig, "--listen=:10268"}, flags),
	})
}

// writeMachineID writes what a machine has as its ID (machine-id(5)), and returns where.
func (l *Lab) writeMachineID(machine string) (string, error) {
	file := filepath.Join(l.Dir(), "agents", machine+".machine-id")
	return file, os.WriteFile(file, []byte(idOf(l.record.Name, machine)+"\n"), 0o444)
}

// StopAgent sends a machine's agent a signal and waits for its end. It does not come back.
func (l *Lab) StopAgent(ctx context.Context, machine string, s syscall.Signal) error {
	return l.stop(ctx, agentName(machine), s)
}

func agentName(machine string) string { return "agent-" + machine }

// ShowAgents makes a pod of each machine's agent, as the DaemonSet would, until they are hidden: so
// they can be found, and asked through the API server. The agents run beside them, as ever.
func (l *Lab) ShowAgents(ctx context.Context) (hide func(context.Context) error, err error) {
	set, err := agentManifest(l.record.Root)
	if err != nil {
		return nil, err
	}
	pods, all := l.Kube.CoreV1().Pods(l.installed()), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)}
	hide = func(ctx context.Context) error {
		now := int64(0)
		return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, all)
	}
	for _, m := range l.Topology.Machines() {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + m.Name, Labels: set.Spec.Template.Labels, Annotations: map[string]string{kubelet.BesideAnnotation: "true"},
		}, Spec: *set.Spec.Template.Spec.DeepCopy()}
		p.Spec.NodeName = m.Name
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return hide, err
		}
	}
	return hide, Within(ctx, 10*time.Second, func(ctx context.Context) error {
		shown, err := pods.List(ctx, all)
		if err != nil {
			return err
		}
		for _, p := range shown.Items {
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
			}
		}
		return nil
	})
}

// AgentStatus is what a machine's agent says of itself on /status, as JSON.
func (l *Lab) AgentStatus(ctx context.Context, machine string) (string, error) {
	return l.fetch(ctx, machine, "http://127.0.0.1:10268/status")
}

// AgentMetrics is what a machine's agent shows to Prometheus.
func (l *Lab) AgentMetrics(ctx context.Context, machine string) (string, error) {
	return l.MetricsAt(ctx, machine, 10268)
}

// MetricsAt is what a program of a machine shows to Prometheus on a port of its loopback.
func (l *Lab) MetricsAt(ctx context.Context, machine string, port int) (string, error) {
	return l.fetch(ctx, machine, fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
}

// Session is what an agent says of one of its BGP sessions.
type Session struct {
	Router, Address string
	Up              bool
	Since           time.Time
	Cause, BFD      string
	Losses          uint64
}

// Sessions are what a machine's agent says of its sessions, by router and address.
func (l *Lab) Sessions(ctx context.Context, machine string) ([]Session, error) {
	text, err := l.AgentStatus(ctx, machine)
	if err != nil {
		return nil, err
	}
	var status struct{ Sessions []Session }
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return nil, fmt.Errorf("status of the agent of %s: %w", machine, err)
	}
	return status.Sessions, nil
}

// Link is what an agent says of a subnet on which it answers for VIPs.
type Link struct {
	Subnet, Interface, Reason, Quorum, Witness string
	Machines                                   []LinkMachine // the others
	VIPs                                       []struct {
		VIP, Owner, Reason, Conflict string
		Answers                      bool
	}
}

// LinkMachine is another machine of a link, as an agent sees it.
type LinkMachine struct {
	Name, Standing string
	Losses         uint64 // times that its session went down
}

// Links are what a machine's agent says of its links, by subnet.
func (l *Lab) Links(ctx context.Context, machine string) ([]Link, error) {
	text, err := l.AgentStatus(ctx, machine)
	if err != nil {
		return nil, err
	}
	var status struct{ Links []Link }
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return nil, fmt.Errorf("status of the agent of %s: %w", machine, err)
	}
	return status.Links, nil
}

// WaitSessions waits until a machine's agent says that all its sessions are up.
func (l *Lab) WaitSessions(ctx context.Context, machine string) error {
	return Within(ctx, 30*time.Second, func(ctx context.Context) error {
		sessions, err := l.Sessions(ctx, machine)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if !s.Up {
				return fmt.Errorf("machine %s: the session with %s is down: %s", machine, s.Router, s.Cause)
			}
		}
		if len(sessions) == 0 {
			return fmt.Errorf("machine %s has no session yet", machine)
		}
		return nil
	})
}
