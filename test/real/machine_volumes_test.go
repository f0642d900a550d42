package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/machine"
)

const (
	database = "database"
	disk     = "disk-0"
)

// runDatabase runs a StatefulSet of one pod with a volume, for the length of a story.
func runDatabase(t *testing.T, l *lab.Lab) {
	t.Helper()
	attach(t, l.Kube)
	required, none := true, ""
	labels := map[string]string{"app": database}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	access := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	_, err := l.Kube.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: machine.CSIDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &required},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = l.Kube.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: disk},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: access,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: machine.CSIDriver, VolumeHandle: disk}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	soon := int64(1)
	_, err = l.Kube.AppsV1().StatefulSets(metav1.NamespaceDefault).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: database},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: database, Selector: &metav1.LabelSelector{MatchLabels: labels},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: access, StorageClassName: &none, Resources: corev1.VolumeResourceRequirements{Requests: size}},
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &soon,
					Containers: []corev1.Container{{
						Name: database, Image: lab.WebImage, ImagePullPolicy: corev1.PullNever,
						VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { removeDatabase(t, l.Kube) })
}

func removeDatabase(t *testing.T, kube kubernetes.Interface) {
	ctx := context.Background()
	for _, err := range []error{
		kube.AppsV1().StatefulSets(metav1.NamespaceDefault).Delete(ctx, database, metav1.DeleteOptions{}),
		kube.CoreV1().PersistentVolumeClaims(metav1.NamespaceDefault).Delete(ctx, "data-"+database+"-0", metav1.DeleteOptions{}),
		kube.CoreV1().PersistentVolumes().Delete(ctx, disk, metav1.DeleteOptions{}),
		kube.StorageV1().CSIDrivers().Delete(ctx, machine.CSIDriver, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// attach says of every VolumeAttachment that it is done, as a driver's controller would
// once its storage has heard of it.
func attach(t *testing.T, kube kubernetes.Interface) {
	attachments := kube.StorageV1().VolumeAttachments()
	changes, err := attachments.Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	go func() {
		for change := range changes.ResultChan() {
			a, ok := change.Object.(*storagev1.VolumeAttachment)
			if !ok || a.Status.Attached || a.DeletionTimestamp != nil {
				continue
			}
			a.Status.Attached = true
			if _, err := attachments.UpdateStatus(t.Context(), a, metav1.UpdateOptions{}); err != nil && t.Context().Err() == nil {
				t.Logf("VolumeAttachment %s: %v", a.Name, err)
			}
		}
	}()
}

// waitDatabase waits until the pod runs on one of the machines, and the volume is attached
// there and nowhere else.
func waitDatabase(t *testing.T, l *lab.Lab, machines ...string) (on string) {
	t.Helper()
	must(t, lab.Within(t.Context(), 90*time.Second, func(ctx context.Context) error {
		pod, err := l.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, database+"-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		on = pod.Spec.NodeName
		running := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		attached, err := attachedTo(ctx, l.Kube)
		if err != nil {
			return err
		}
		if !running || !slices.Contains(machines, on) || !slices.Equal(attached, []string{on}) {
			return fmt.Errorf("the pod is %s on %q, its volume attached to %v, want both on one of %v", pod.Status.Phase, on, attached, machines)
		}
		return nil
	}))
	return on
}

// attachedTo lists the Nodes that the volume is attached to.
func attachedTo(ctx context.Context, kube kubernetes.Interface) (nodes []string, err error) {
	list, err := kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, a := range list.Items {
		if a.Spec.Attacher == machine.CSIDriver {
			nodes = append(nodes, a.Spec.NodeName)
		}
	}
	return nodes, nil
}

// TestTheVolumesOfAMachineThatIsOffMoveAsTheGuideSays cuts the power of the machine that
// a StatefulSet's pod runs on.
func TestTheVolumesOfAMachineThatIsOffMoveAsTheGuideSays(t *testing.T) {
	l, g := installed(t)
	g = page(t, g, "replace-a-machine.md")
	const section = "## A machine that is off, with volumes"
	inventory := lab.Inventory(l.Topology)
	g.mustRun(t, "kubectl cordon nuc1") // the controller runs there
	t.Cleanup(func() {
		if _, err := l.Kubectl(context.Background(), "uncordon", "nuc1"); err != nil {
			t.Error(err)
		}
	})
	runDatabase(t, l)
	off := waitDatabase(t, l, "nuc2", "nuc3")
	other := map[string]string{"nuc2": "nuc3", "nuc3": "nuc2"}[off]
	named := func(commands string) string { return strings.ReplaceAll(commands, "nuc2", off) }

	must(t, l.PowerOff(t.Context(), off))
	waitReady(t, l, off, false)
	must(t, l.ApplyInventory(t.Context(), inState(inventory, off, `"off"`)))
	waitEvent(t, l, off, "VolumesStayAttached", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	g.status(t, "(volumes: 1)")
	if attached, err := attachedTo(t.Context(), l.Kube); err != nil || !slices.Equal(attached, []string{off}) {
		t.Errorf("before anybody said that it is surely off, the volume is attached to %v, %v", attached, err)
	}

	t.Log(g.mustRun(t, named(g.block(t, section, 0))))
	waitDatabase(t, l, other)

	must(t, l.PowerOn(t.Context(), off))
	waitReady(t, l, off, true)
	waitEvent(t, l, off, "StillOff", "state: active")
	must(t, l.ApplyInventory(t.Context(), inventory))
	waitEvent(t, l, off, "StillOutOfService", "kubectl taint nodes "+off)
	g.mustRun(t, named(g.block(t, section, 1)))
	must(t, PlinthUp(t.Context(), l))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error { // the stock controller looks for machines that are off every five seconds
		n, err := l.Node(ctx, off)
		if err == nil && len(n.Spec.Taints) > 0 {
			err = fmt.Errorf("node %s is back with the taints %v", off, n.Spec.Taints)
		}
		return err
	}))
}
