package provider

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"plinth.dev/plinth/provider/event"
)

// component is what Events of ours are reported by.
const component = "plinth"

// startEvents sends Events through a client of their own, so that a burst of
// them does not hold up the writes that matter.
func (c *Cloud) startEvents(ctx context.Context, client kubernetes.Interface) {
	c.events = record.NewBroadcaster(record.WithContext(ctx))
	c.events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	c.recorder = c.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: component})
	c.reports = event.NewReports(c.recorder)
}

// quietEvents is a client of Events that does not send those that are dropped.
type quietEvents struct {
	typedv1.EventInterface
	drop func(*v1.Event) bool
}

// CreateWithEventNamespace creates an Event. It is what the recorder of a stock controller
// calls.
func (e quietEvents) CreateWithEventNamespace(event *v1.Event) (*v1.Event, error) {
	return e.CreateWithEventNamespaceWithContext(context.Background(), event)
}

// CreateWithEventNamespaceWithContext creates an Event.
func (e quietEvents) CreateWithEventNamespaceWithContext(ctx context.Context, event *v1.Event) (*v1.Event, error) {
	if e.drop(event) {
		return event, nil
	}
	return e.EventInterface.CreateWithEventNamespaceWithContext(ctx, event)
}

// PatchWithEventNamespace counts an Event that was seen before. It is what the recorder of
// a stock controller calls.
func (e quietEvents) PatchWithEventNamespace(event *v1.Event, data []byte) (*v1.Event, error) {
	return e.PatchWithEventNamespaceWithContext(context.Background(), event, data)
}

// PatchWithEventNamespaceWithContext counts an Event that was seen before.
func (e quietEvents) PatchWithEventNamespaceWithContext(ctx context.Context, event *v1.Event, data []byte) (*v1.Event, error) {
	if e.drop(event) {
		return event, nil
	}
	return e.EventInterface.PatchWithEventNamespaceWithContext(ctx, event, data)
}
