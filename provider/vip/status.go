package vip

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/endpoints"
)

// Reasons of Events on Services.
const (
	reasonStatusOverwritten = "StatusOverwritten"      // another program wrote the status
	reasonSyncFailed        = "SyncLoadBalancerFailed" // the API server failed; also the stock controller's word for it
)

// Reasons of [lb.VIPAllocated] when it is true.
const (
	reasonAllocated = "Allocated"
	reasonOneFamily = "OneFamilyOnly" // PreferDualStack, and only one family is to be had
)

// statuses writes the statuses of Services.
type statuses struct {
	*store
	reports   *reports
	ofService keyedLock[lb.ServiceKey] // one goroutine at a time reconciles a Service

	announcements         announcements
	announcementsChanged  chan struct{}
	announcementsDisputed chan struct{} // and people are to be told at once
	reviewEvery           time.Duration
}

// Bounds of messages in bytes: a condition names what each of some hundred pools said
// (the API allows 32768), an Event as much as the API takes.
const (
	maxCondition = 16384
	maxEvent     = 1024
)

// conditionOf returns the condition for a decision. Of a refusal the reason is the [lb.Reason] of the
// first pool that was looked at, and the message has those of all.
func conditionOf(svc *v1.Service, decision ipam.Decision, now time.Time) metav1.Condition {
	condition := metav1.Condition{
		Type: lb.VIPAllocated, Status: metav1.ConditionTrue, Reason: reasonAllocated, Message: inventory.ShortenText(decision.String(), maxCondition),
		LastTransitionTime: metav1.Time{Time: now.Truncate(time.Second)},
	}
	switch {
	case decision.Refused:
		condition.Status, condition.Reason = metav1.ConditionFalse, string(decision.Denials[0].Reason)
	case len(decision.Denials) > 0:
		condition.Reason = reasonOneFamily
	}
	if old := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated); old != nil && old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	return condition
}

// statusPatch returns the patch that brings the status of a Service up to date with the decision and
// the announcements; nil: it is up to date.
// It holds for the Service as it was read and no other: a leader that was stopped for a
// while cannot write over what its successor wrote.
// The finalizer goes with the VIPs, on Services without a class.
func statusPatch(svc *v1.Service, decision ipam.Decision, announcement announcement, now time.Time) map[string]any {
	status, metadata := map[string]any{}, map[string]any{}
	ingress := ingressOf(decision.Addrs())
	if !sameIngress(svc, ingress) {
		status["loadBalancer"] = map[string]any{"ingress": ingress}
	}
	var conditions []any
	c := conditionOf(svc, decision, now)
	if old := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated); old == nil || *old != c {
		conditions = append(conditions, c)
	}
	if c := announcedPatch(svc, announcement, now); c != nil {
		conditions = append(conditions, c)
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	if needsFinalizer(svc) && len(ingress) > 0 {
		metadata["finalizers"] = []string{servicehelper.LoadBalancerCleanupFinalizer}
	}
	if len(status) == 0 && len(metadata) == 0 {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = svc.UID, svc.ResourceVersion
	return map[string]any{"metadata": metadata, "status": status}
}

func needsFinalizer(svc *v1.Service) bool {
	return classless(svc) && svc.DeletionTimestamp == nil && !slices.Contains(svc.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
}

// writeStatus writes the decision into the status of the Service, and reports whether it wrote. A
// Service that gets nothing keeps a status that is none of ours: another balancer may
// serve it.
func (b *statuses) writeStatus(ctx context.Context, svc *v1.Service, decision ipam.Decision, a announcement) (bool, error) {
	patch := statusPatch(svc, decision, a, b.now())
	if patch == nil {
		return false, nil
	}
	if status := patch["status"].(map[string]any); len(decision.VIPs) == 0 && !b.concernsUs(svc) {
		if delete(status, "loadBalancer"); len(status) == 0 {
			return false, nil
		}
	}
	defer b.ofService.lock(keyOf(svc))()
	if last, told := b.told(svc); !told || !slices.Equal(last.Addrs(), decision.Addrs()) {
		return false, nil // it moves again, or is gone: what it held may be another's by now
	}
	err := b.patchStatus(ctx, svc, patch)
	return err == nil, err
}

// concernsUs reports whether a status has an address of a pool, or one that is used by
// machines, routers or the cluster, whose traffic every kube-proxy would then take.
func (b *statuses) concernsUs(svc *v1.Service) bool {
	return ask(b.store, func(s *ipam.State) bool {
		return slices.ContainsFunc(endpoints.ShownBy(svc), func(a netip.Addr) bool { return s.Pool(a) != "" || s.Uses(a) })
	})
}

// patchStatus sends a patch; a Service that is gone needs none.
func (b *statuses) patchStatus(ctx context.Context, svc *v1.Service, patch map[string]any) error {
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = b.cluster.Client.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// recordEvent records an Event when a decision that was written went otherwise than the last
// one.
func (b *statuses) recordEvent(svc *v1.Service, decision ipam.Decision) {
	condition := meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated)
	now := conditionOf(svc, decision, b.now())
	if says(condition, now) {
		return
	}
	switch {
	case decision.Refused:
		b.cluster.Recorder.Event(svc, v1.EventTypeWarning, now.Reason, inventory.ShortenText(now.Message, maxEvent))
	case condition == nil || condition.Status == metav1.ConditionFalse:
		b.cluster.Recorder.Event(svc, v1.EventTypeNormal, reasonAllocated, inventory.ShortenText(now.Message, maxEvent))
	}
}

// withoutCondition returns the element of a strategic merge patch that removes a condition.
func withoutCondition(typ string) map[string]any {
	return map[string]any{"$patch": "delete", "type": typ}
}

// says reports whether a condition says the same as another, since whenever it does.
func says(c *metav1.Condition, want metav1.Condition) bool {
	return c != nil && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message
}

// overwritten returns the message on a status that another program overwrote.
func overwritten(svc *v1.Service, d ipam.Decision) string {
	if sameIngress(svc, ingressOf(d.Addrs())) {
		return "another program changed condition " + lb.VIPAllocated + "; Plinth repairs it, ever less often if this goes on"
	}
	var ips []string
	for _, i := range svc.Status.LoadBalancer.Ingress {
		ips = append(ips, i.IP+i.Hostname)
	}
	return fmt.Sprintf("another program set the status to %q; Plinth repairs it, ever less often if this goes on", strings.Join(ips, ","))
}

// reported returns the Service of that UID as the API server has it now; nil if it is
// gone.
func (b *statuses) reported(ctx context.Context, k lb.ServiceKey, uid string) (*v1.Service, error) {
	svc, err := b.cluster.Client.CoreV1().Services(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && string(svc.UID) != uid {
		return nil, nil
	}
	return svc, err
}

// showsIn returns those of some addresses that a status shows.
func showsIn(svc *v1.Service, all []netip.Addr) []netip.Addr {
	if svc == nil {
		return nil
	}
	shown := endpoints.ShownBy(svc)
	return slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !slices.Contains(shown, a) })
}
