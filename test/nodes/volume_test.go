package nodes

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

func TestPodLandsInTheZoneOfItsVolume(t *testing.T) {
	c := newCluster(t, apiserver.Options{Controllers: true, Scheduler: true})
	c.start()
	c.edit(apiserver.Document(`
  region: dc1
  storage:
    - {name: nas1, rack: r02, nfs: {server: 10.10.2.50}}
  racks:
    - {name: r01, zone: a, machines: [{name: w1, addresses: [10.10.1.11]}]}
    - {name: r02, zone: b, machines: [{name: w2, addresses: [10.10.2.11]}]}
`))
	for _, name := range []string{"w1", "w2"} {
		c.register(node{name: name})
		c.until(name, "is initialised", apiserver.Initialised)
	}
	c.volume("shared", v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "10.10.2.50", Path: "/srv"}}, map[string]string{"plinth.dev/rack": "theirs"})
	c.volume("elsewhere", v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.1", Path: "/srv"}}, nil)
	c.Eventually(20*time.Second, "the volume is labelled", func(ctx context.Context) error {
		pv, err := c.Client.CoreV1().PersistentVolumes().Get(ctx, "shared", metav1.GetOptions{})
		if err == nil && (pv.Labels["topology.kubernetes.io/zone"] != "b" || pv.Labels["topology.kubernetes.io/region"] != "dc1" || pv.Labels["plinth.dev/rack"] != "theirs") {
			err = fmt.Errorf("its labels are %v", pv.Labels)
		}
		return err
	})
	c.pod("shared")
	c.Eventually(30*time.Second, "the pod has a node", func(ctx context.Context) error {
		pod, err := c.Client.CoreV1().Pods("default").Get(ctx, "user", metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName != "w2" {
			err = fmt.Errorf("its node is %q: %v", pod.Spec.NodeName, pod.Status.Conditions)
		}
		return err
	})
	pv, err := c.Client.CoreV1().PersistentVolumes().Get(t.Context(), "elsewhere", metav1.GetOptions{})
	if err != nil || len(pv.Labels) != 0 {
		t.Errorf("a volume that the inventory does not know has the labels %v (%v)", pv.Labels, err)
	}
}

func (c *cluster) volume(name string, source v1.PersistentVolumeSource, labels map[string]string) {
	c.t.Helper()
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: source, StorageClassName: "manual", AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
		Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
	}}
	pv.Name, pv.Labels = name, labels
	if _, err := c.Client.CoreV1().PersistentVolumes().Create(c.t.Context(), pv, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// pod creates a pod that uses a volume.
func (c *cluster) pod(volume string) {
	c.t.Helper()
	ctx, class := c.t.Context(), "manual"
	claim := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeName: volume, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	claim.Name = "data"
	if _, err := c.Client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "c", Image: "none"}},
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
	}}
	pod.Name = "user"
	if _, err := c.Client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}
