package kubelet

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reportPod tells the API server how a pod is, when that has changed.
func (k *kubelet) reportPod(ctx context.Context, p *corev1.Pod, running *pod) error {
	starts := readyIn(p, running.started.Time)
	if starts > 0 {
		k.markAfter(starts)
	}
	ready := starts <= 0 && p.Annotations[ReadyAnnotation] != "false"
	next := p.Status.DeepCopy()
	next.Phase = corev1.PodRunning
	next.StartTime = &running.started
	if p.Status.StartTime != nil {
		next.StartTime = p.Status.StartTime
	}
	next.PodIP = running.addresses[0].String()
	next.PodIPs = nil
	for _, a := range running.addresses {
		next.PodIPs = append(next.PodIPs, corev1.PodIP{IP: a.String()})
	}
	next.HostIP, next.HostIPs = k.hostIPs()
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReadyToStartContainers} {
		setCondition(&next.Conditions, t, true)
	}
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&next.Conditions, t, ready)
	}
	next.ContainerStatuses = containers(p, next.StartTime, ready)
	return k.patchStatus(ctx, p, next)
}

// reportExited tells the API server that a pod's program has exited: a pod that has
// ended is no endpoint any more, though its object is still there.
func (k *kubelet) reportExited(ctx context.Context, p *corev1.Pod, running *pod) error {
	next := p.Status.DeepCopy()
	next.Phase = corev1.PodSucceeded
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&next.Conditions, t, false)
	}
	for i := range next.ContainerStatuses {
		c := &next.ContainerStatuses[i]
		if c.State.Terminated == nil {
			c.Ready, c.Started = false, new(bool)
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason: "Completed", StartedAt: running.started, FinishedAt: metav1.NewTime(running.exited), ContainerID: c.ContainerID,
			}}
		}
	}
	return k.patchStatus(ctx, p, next)
}

// reject ends a pod that cannot run here.
func (k *kubelet) reject(ctx context.Context, p *corev1.Pod, why string) error {
	next := p.Status.DeepCopy()
	next.Phase, next.Reason, next.Message = corev1.PodFailed, "Unsupported", why
	return k.patchStatus(ctx, p, next)
}

func (k *kubelet) patchStatus(ctx context.Context, p *corev1.Pod, next *corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(&p.Status, next) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": next})
	if err != nil {
		return err
	}
	_, err = k.Kube.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func setCondition(list *[]corev1.PodCondition, t corev1.PodConditionType, yes bool) {
	status := corev1.ConditionFalse
	if yes {
		status = corev1.ConditionTrue
	}
	for i := range *list {
		if c := &(*list)[i]; c.Type == t {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, metav1.Now()
			}
			return
		}
	}
	*list = append(*list, corev1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.Now()})
}

func containers(p *corev1.Pod, started *metav1.Time, ready bool) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	yes := true
	for _, c := range p.Spec.Containers {
		list = append(list, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "netns://" + string(p.UID),
			Ready: ready, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *started}},
		})
	}
	return list
}

func (k *kubelet) hostIPs() (string, []corev1.HostIP) {
	n := k.node()
	if n == nil {
		return "", nil
	}
	var list []corev1.HostIP
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			list = append(list, corev1.HostIP{IP: a.Address})
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	return list[0].IP, list
}
