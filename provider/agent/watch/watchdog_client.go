package watch

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// watchdogClient is a client that tells whenever the API server says anything about
// ConfigMaps: those of the accepted inventory are not kept in an [objectCache].
type watchdogClient struct {
	kubernetes.Interface
	seen func()
}

// IsWatchListSemanticsUnSupported reports whether the client cannot stream lists, which informers ask first.
func (h watchdogClient) IsWatchListSemanticsUnSupported() bool {
	c, says := h.Interface.(interface{ IsWatchListSemanticsUnSupported() bool })
	return says && c.IsWatchListSemanticsUnSupported()
}

func (h watchdogClient) CoreV1() clientcorev1.CoreV1Interface {
	return watchdogCore{h.Interface.CoreV1(), h.seen}
}

type watchdogCore struct {
	clientcorev1.CoreV1Interface
	seen func()
}

func (h watchdogCore) ConfigMaps(namespace string) clientcorev1.ConfigMapInterface {
	return watchdogMaps{h.CoreV1Interface.ConfigMaps(namespace), h.seen}
}

type watchdogMaps struct {
	clientcorev1.ConfigMapInterface
	seen func()
}

func (h watchdogMaps) List(ctx context.Context, o metav1.ListOptions) (*corev1.ConfigMapList, error) {
	l, err := h.ConfigMapInterface.List(ctx, o)
	if err == nil {
		h.seen()
	}
	return l, err
}

func (h watchdogMaps) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := h.ConfigMapInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) { h.seen(); return e, true }), nil
}
