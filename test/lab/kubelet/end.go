package kubelet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LingerAnnotation is how long a pod's program goes on serving after its SIGTERM, within
// the pod's grace period.
const LingerAnnotation = "lab.plinth.dev/linger"

const (
	defaultLinger = 2 * time.Second

	// A kubelet hears that a container has exited from its runtime, has the sandbox and its
	// network removed, and only then writes the status; all that time the API server lists
	// the pod as one that serves. The object goes once volumes and cgroups have gone too.
	reportAfter = 500 * time.Millisecond
	deleteAfter = reportAfter + 500*time.Millisecond
)

// terminate brings a deleted pod one step nearer to its end. A kubelet's steps are, in
// this order: SIGTERM; the program serves on and exits, at the latest when the grace
// period is over; its namespace goes; the API server is told that it has ended; the
// object is removed.
func (k *kubelet) terminate(ctx context.Context, p *corev1.Pod, running *pod) error {
	if running == nil { // of an earlier run of this kubelet, or never started
		return k.deleteObject(ctx, p)
	}
	if running.exited.IsZero() {
		if k.stopAt(running, time.Now().Add(linger(p))); time.Now().Before(running.exitsAt) {
			return k.reportPod(ctx, p, running)
		}
		if err := k.exit(running); err != nil {
			return err
		}
	}
	switch age := time.Since(running.exited); {
	case age < reportAfter:
		return nil
	case age < deleteAfter:
		return k.reportExited(ctx, p, running)
	}
	if err := errors.Join(k.reportExited(ctx, p, running), k.deleteObject(ctx, p)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(k.pods, running.uid)
	return nil
}

// stopAt tells a pod's program to end, which it does then; who tells it again may only
// shorten what is left.
func (k *kubelet) stopAt(running *pod, at time.Time) {
	if !running.exitsAt.IsZero() && !at.Before(running.exitsAt) {
		return
	}
	running.exitsAt = at
	k.Log.Info("pod terminates", "pod", running.key, "exits", at)
	k.markAfter(time.Until(at))
}

func linger(p *corev1.Pod) time.Duration {
	d, err := time.ParseDuration(p.Annotations[LingerAnnotation])
	if err != nil {
		d = defaultLinger
	}
	if p.DeletionGracePeriodSeconds != nil {
		d = min(d, time.Duration(*p.DeletionGracePeriodSeconds)*time.Second)
	}
	return d
}

// exit ends a pod's program and removes its namespace.
func (k *kubelet) exit(running *pod) error {
	if err := errors.Join(running.server.close(), k.leave(running)); err != nil {
		return err
	}
	running.exited = time.Now()
	k.Log.Info("pod has exited", "pod", running.key)
	k.markAfter(reportAfter)
	k.markAfter(deleteAfter)
	return nil
}

// kill ends a pod whose object is gone: it was deleted without grace.
func (k *kubelet) kill(running *pod) {
	if running.exited.IsZero() {
		if err := k.exit(running); err != nil {
			k.Log.Error("killing a pod", "pod", running.key, "err", err)
			return
		}
	}
	delete(k.pods, running.uid)
}

func (k *kubelet) markAfter(d time.Duration) { time.AfterFunc(d, k.mark) }

func (k *kubelet) deleteObject(ctx context.Context, p *corev1.Pod) error {
	none := int64(0)
	return k.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
}
