package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plinth.dev/plinth/test/lab/kubelet"
)

const webPodPort = 8080

// Web is web servers in pods: a Deployment, spread evenly over the machines, or a DaemonSet.
type Web struct {
	Name       string
	Replicas   int32         // of a Deployment
	Everywhere bool          // a DaemonSet
	Crowded    bool          // a Deployment whose pods share machines while others take none
	ReadyAfter time.Duration // from a pod's start until it is ready; zero: it is at once
	Linger     time.Duration // for which a pod serves on after SIGTERM; zero: two seconds
}

// RunWeb creates web servers, and waits until they are ready.
func (l *Lab) RunWeb(ctx context.Context, w Web) error {
	meta, selector := metav1.ObjectMeta{Name: w.Name}, &metav1.LabelSelector{MatchLabels: w.labels()}
	var err error
	if w.Everywhere {
		_, err = l.Kube.AppsV1().DaemonSets(workloads).Create(ctx, &appsv1.DaemonSet{
			ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: w.template()},
		}, metav1.CreateOptions{})
	} else {
		_, err = l.Kube.AppsV1().Deployments(workloads).Create(ctx, &appsv1.Deployment{
			ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &w.Replicas, Selector: selector, Template: w.template()},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	return l.waitWeb(ctx, w)
}

func (w Web) labels() map[string]string { return map[string]string{"app": w.Name} }

// template has pods take their time on real machines, by their arguments, and on the lab's
// own kubelet, by their annotations.
func (w Web) template() corev1.PodTemplateSpec {
	container := corev1.Container{
		Name: "web", Image: WebImage, ImagePullPolicy: corev1.PullNever, Env: webEnvironment(),
		Ports: []corev1.ContainerPort{{ContainerPort: webPodPort}, {ContainerPort: webPodPort, Protocol: corev1.ProtocolUDP}},
	}
	annotations := map[string]string{}
	if w.ReadyAfter > 0 {
		annotations[kubelet.ReadyAfterAnnotation] = w.ReadyAfter.String()
		container.Args = append(container.Args, "--delay="+w.ReadyAfter.String())
		container.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(webPodPort)},
		}}
	}
	if w.Linger > 0 {
		annotations[kubelet.LingerAnnotation] = w.Linger.String()
		container.Args = append(container.Args, "--linger="+w.Linger.String())
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container}}
	if !w.Everywhere {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: w.labels()},
		}}
	}
	if w.Crowded {
		honor := corev1.NodeInclusionPolicyHonor
		spec.TopologySpreadConstraints[0].NodeTaintsPolicy = &honor
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.labels(), Annotations: annotations}, Spec: spec}
}

// webEnvironment tells a pod on a real machine where it is.
func webEnvironment() []corev1.EnvVar {
	from := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return []corev1.EnvVar{from("NODE_NAME", "spec.nodeName"), from("POD_NAME", "metadata.name")}
}

// RemoveWeb deletes web servers and waits until their pods are gone.
func (l *Lab) RemoveWeb(ctx context.Context, w Web) error {
	now := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &now}
	var err error
	if w.Everywhere {
		err = l.Kube.AppsV1().DaemonSets(workloads).Delete(ctx, w.Name, options)
	} else {
		err = l.Kube.AppsV1().Deployments(workloads).Delete(ctx, w.Name, options)
	}
	if err != nil {
		return err
	}
	return Within(ctx, 30*time.Second, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, w.Name)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%s: %d pods left", w.Name, len(pods))
		}
		return err
	})
}

// Pods returns the pods of web servers, by name.
func (l *Lab) Pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	list, err := l.Kube.CoreV1().Pods(workloads).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// ScaleWeb changes how many pods a Deployment is to have.
func (l *Lab) ScaleWeb(ctx context.Context, name string, replicas int32) error {
	return l.patchWeb(ctx, Web{Name: name}, map[string]any{"replicas": replicas})
}

// RestartWeb replaces all pods, as kubectl rollout restart does, and waits until the last
// old one has gone and all new ones are ready.
func (l *Lab) RestartWeb(ctx context.Context, w Web) error {
	old, err := l.Pods(ctx, w.Name)
	if err != nil {
		return err
	}
	at := map[string]string{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}
	err = l.patchWeb(ctx, w, map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": at}}})
	if err != nil {
		return err
	}
	return l.waitWeb(ctx, w, old...)
}

func (l *Lab) patchWeb(ctx context.Context, w Web, spec map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	if w.Everywhere {
		_, err = l.Kube.AppsV1().DaemonSets(workloads).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = l.Kube.AppsV1().Deployments(workloads).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}

// waitWeb waits until there are exactly the pods that are to be there, all of them ready
// and none of them terminating or old.
func (l *Lab) waitWeb(ctx context.Context, w Web, old ...corev1.Pod) error {
	want := int(w.Replicas)
	if w.Everywhere {
		want = len(l.Topology.Machines())
	}
	good := func(p corev1.Pod) bool {
		return podReady(p) && p.DeletionTimestamp == nil && !slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == p.UID })
	}
	return Within(ctx, time.Minute, func(ctx context.Context) error {
		pods, err := l.Pods(ctx, w.Name)
		if err != nil {
			return err
		}
		for _, p := range pods {
			if !good(p) {
				err = fmt.Errorf("%s: pod %s of %s, deleted at %v, is old or not ready: %s", w.Name, p.Name, p.Spec.NodeName, p.DeletionTimestamp, podStory(p))
			}
		}
		if err == nil && len(pods) != want {
			err = fmt.Errorf("%s: %d of %d pods are there", w.Name, len(pods), want)
		}
		return err
	})
}

func podReady(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
