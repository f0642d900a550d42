package survey

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/provider/endpoints"
	"plinth.dev/plinth/provider/nodeindex"
)

// labelControlPlane is on the Nodes that the controller runs on.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

func nodeOf(n *v1.Node) diagnose.Node {
	_, excluded := n.Labels[v1.LabelNodeExcludeBalancers]
	_, controlPlane := n.Labels[labelControlPlane]
	return diagnose.Node{
		NodeState: nodeindex.State(n), Excluded: excluded, ControlPlane: controlPlane,
		Kubelet: nodeCondition(n, v1.NodeReady), Fabric: nodeCondition(n, lb.FabricReady), Tainted: taintedSince(n),
	}
}

func nodeCondition(n *v1.Node, kind v1.NodeConditionType) diagnose.Condition {
	c := nodeindex.Condition(n, kind)
	return diagnose.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time, Heard: c.LastHeartbeatTime.Time}
}

// taintedSince is when a Node got the taint of maintenance; zero: it has none, or that is not told.
func taintedSince(n *v1.Node) time.Time {
	for _, t := range n.Spec.Taints {
		if t.Key == inventory.TaintMaintenance.Key && t.TimeAdded != nil {
			return t.TimeAdded.Time
		}
	}
	return time.Time{}
}

func serviceOf(service *v1.Service) diagnose.Service {
	out := diagnose.Service{
		Proxy: lb.ProxyOf(service.Labels),
		Key:   lb.ServiceKey{Namespace: service.Namespace, Name: service.Name}, Allocated: serviceCondition(service, lb.VIPAllocated), Announced: serviceCondition(service, lb.VIPAnnounced),
		Shown: endpoints.ShownBy(service),
	}
	if service.Spec.LoadBalancerClass != nil {
		out.Class = *service.Spec.LoadBalancerClass
	}
	return out
}

func serviceCondition(s *v1.Service, kind string) diagnose.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, kind)
	if c == nil {
		return diagnose.Condition{}
	}
	return diagnose.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
}

func podOf(p *v1.Pod) diagnose.Pod {
	out := diagnose.Pod{Name: p.Name, Node: p.Spec.NodeName, Pending: whyPending(p)}
	if len(p.Spec.Containers) > 0 {
		out.Image = p.Spec.Containers[0].Image
	}
	return out
}

// whyPending returns the reason for which a pod is pending; empty: it is not.
func whyPending(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return strings.TrimSpace("it cannot be scheduled: " + cmp.Or(c.Message, c.Reason))
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := status.State.Waiting; w != nil {
			why := strings.TrimSuffix(fmt.Sprintf("%s: %s", w.Reason, w.Message), ": ")
			if last := status.LastTerminationState.Terminated; last != nil {
				why += "; " + howItEnded(last)
			}
			return why
		}
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 { // an init container ends with 0
			return howItEnded(t)
		}
	}
	if pod.Status.Phase == v1.PodPending {
		return "it is Pending"
	}
	return ""
}

// longestWord is how much of what a container said is shown, in bytes.
const longestWord = 500

// howItEnded returns the exit code of a container, with its last words, or else the reason.
func howItEnded(t *v1.ContainerStateTerminated) string {
	said := strings.ToValidUTF8(lastWord(t.Message), "")
	if len(said) > longestWord {
		said = strings.ToValidUTF8(said[:longestWord], "") + "..."
	}
	return strings.TrimSuffix(fmt.Sprintf("it ended with code %d: %s", t.ExitCode, cmp.Or(said, t.Reason)), ": ")
}

// lastWord is the line of the end of a log that says why a program ended: the last one, unless it panicked.
func lastWord(log string) (last string) {
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
		last = cmp.Or(line, last)
	}
	return last
}
