package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// hearing is a client that tells whenever the API server says anything about
// ConfigMaps: those of the accepted inventory are not kept in a [mirror].
type hearing struct {
	kubernetes.Interface
	heard func()
}

// IsWatchListSemanticsUnSupported is what informers ask of a client.
func (h hearing) IsWatchListSemanticsUnSupported() bool {
	c, says := h.Interface.(interface{ IsWatchListSemanticsUnSupported() bool })
	return says && c.IsWatchListSemanticsUnSupported()
}

func (h hearing) CoreV1() clientcorev1.CoreV1Interface {
	return hearingCore{h.Interface.CoreV1(), h.heard}
}

type hearingCore struct {
	clientcorev1.CoreV1Interface
	heard func()
}

func (h hearingCore) ConfigMaps(namespace string) clientcorev1.ConfigMapInterface {
	return hearingMaps{h.CoreV1Interface.ConfigMaps(namespace), h.heard}
}

type hearingMaps struct {
	clientcorev1.ConfigMapInterface
	heard func()
}

func (h hearingMaps) List(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	l, err := h.ConfigMapInterface.List(ctx, o)
	if err == nil {
		h.heard()
	}
	return l, err
}

func (h hearingMaps) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := h.ConfigMapInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { h.heard(); return e, true }), nil
}
