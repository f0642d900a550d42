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

// component is the name that Plinth's Events have as their source.
const component = "plinth"

// startEvents sends Events through a client of their own, after what is to be done for
// Services, so that a burst of them does not hold up the writes that matter.
func (c *Cloud) startEvents(ctx context.Context, client kubernetes.Interface) {
	c.events = record.NewBroadcaster(record.WithContext(ctx))
	c.events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	backlog := event.NewBacklog(c.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: component}), c.vips.Busy, c.log)
	go backlog.Run(ctx)
	c.recorder = backlog
	c.reports = event.NewReports(c.recorder)
}
