package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	leaseEvery  = 2 * time.Second
	leaseFor    = 10 // seconds
	statusEvery = 10 * time.Second
)

// register creates the Node, unless it is there from an earlier run.
func (k *kubelet) register(ctx context.Context) error {
	for {
		_, err := k.Kube.CoreV1().Nodes().Create(ctx, k.newNode(), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			k.Log.Info("registered", "node", k.Node)
			return nil
		}
		k.Log.Error("registering", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (k *kubelet) newNode() *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.Node,
			Labels: map[string]string{
				corev1.LabelHostname:   k.Node,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
	}
	if k.CloudProvider == "external" {
		n.Spec.Taints = []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		}}
	}
	if k.NodeIP != "" {
		n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: k.NodeIP}
	}
	n.Status = k.nodeStatus(nil)
	return n
}

// nodeStatus is what a kubelet says about its machine. Addresses are the cloud
// provider's to give; a kubelet under an external one knows its hostname alone.
func (k *kubelet) nodeStatus(old []corev1.NodeCondition) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the lab's kubelet is posting ready status"}
	if len(k.podCIDRs()) == 0 {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "pod network not ready: the Node has no podCIDRs"
	}
	conditions := []corev1.NodeCondition{ready}
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		conditions = append(conditions, corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: "KubeletHasEnough"})
	}
	now := metav1.Now()
	for i := range conditions {
		c := &conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		for _, o := range old {
			if o.Type == c.Type && o.Status == c.Status {
				c.LastTransitionTime = o.LastTransitionTime
			}
		}
	}
	return corev1.NodeStatus{
		Capacity:    resources,
		Allocatable: resources,
		Conditions:  conditions,
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: k.SystemUUID, SystemUUID: k.SystemUUID, BootID: k.SystemUUID,
			KernelVersion: "linux", OSImage: "Plinth lab", ContainerRuntimeVersion: "netns://1",
			KubeletVersion: k.Version, OperatingSystem: "linux", Architecture: runtime.GOARCH,
		},
	}
}

// reportNode patches the conditions when Ready has changed, and every ten seconds.
func (k *kubelet) reportNode(ctx context.Context) error {
	n := k.node()
	if n == nil {
		return nil // deleted: a kubelet registers once
	}
	status := k.nodeStatus(n.Status.Conditions)
	if time.Since(k.reported) < statusEvery && sameReady(n.Status.Conditions, status.Conditions) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"conditions": status.Conditions, "nodeInfo": status.NodeInfo,
	}})
	if err != nil {
		return err
	}
	if _, err := k.Kube.CoreV1().Nodes().Patch(ctx, k.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patching: %w", err)
	}
	k.reported = time.Now()
	return nil
}

func sameReady(a, b []corev1.NodeCondition) bool {
	return readyStatus(a) == readyStatus(b)
}

func readyStatus(list []corev1.NodeCondition) corev1.ConditionStatus {
	for _, c := range list {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// renewLease keeps the Node's lease fresh, which is how Kubernetes knows that the
// machine lives.
func (k *kubelet) renewLease(ctx context.Context) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		if err := k.renewOnce(ctx); err != nil {
			k.Log.Error("lease", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *kubelet) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseEvery)
	defer cancel()
	leases := k.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, seconds := metav1.NowMicro(), int32(leaseFor)
	lease, err := leases.Get(ctx, k.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: k.Node}}
		if n := k.node(); n != nil {
			lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
		}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &k.Node, LeaseDurationSeconds: &seconds, RenewTime: &now}
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &k.Node, &seconds, &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
