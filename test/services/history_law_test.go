package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// told makes events as watches tell them, one after the other.
type told struct{ events []event }

func (h *told) is(o metav1.Object) { h.tell(watch.Modified, o) }

func (h *told) gone(o metav1.Object) { h.tell(watch.Deleted, o) }

func (h *told) tell(kind watch.EventType, o metav1.Object) {
	e := event{version: uint64(len(h.events) + 1), gone: kind == watch.Deleted, at: time.Unix(0, 0)}
	e.service, _ = o.(*v1.Service)
	e.address, _ = o.(*networkingv1.IPAddress)
	h.events = append(h.events, e)
}

// showing is a Service of that name, which is its UID too, with a status.
func showing(name string, change func(*v1.Service), ips ...string) *v1.Service {
	svc := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	svc.Spec.Type, svc.Spec.Ports = v1.ServiceTypeLoadBalancer, []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}}
	for _, ip := range ips {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: ip})
	}
	if change != nil {
		change(svc)
	}
	return svc
}

// heldBy is the object by which Services hold an address.
func heldBy(ip string, names ...string) *networkingv1.IPAddress {
	a := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{networkingv1.LabelManagedBy: "plinth.dev"}}}
	for i := range names {
		names[i] = "default/" + names[i]
	}
	a.Annotations = map[string]string{"plinth.dev/shared-by": strings.Join(names, ",")}
	return a
}

func deleting(svc *v1.Service) { svc.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }

func shares(port int32) func(*v1.Service) {
	return func(svc *v1.Service) {
		annotated("plinth.dev/sharing-key", "web")(svc)
		svc.Spec.Ports[0].Port = port
	}
}

func TestHistoryTellsWhichLawWasBroken(t *testing.T) {
	const ip, next = "192.0.2.0", "192.0.2.1"
	for _, tt := range []struct {
		name string
		tell func(h *told)
		want string // the beginning of the one violation; empty: there is none
	}{
		{"a life", func(h *told) {
			h.is(showing("a", nil))
			h.is(heldBy(ip, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", deleting, ip))
			h.is(showing("a", deleting))
			h.gone(showing("a", deleting))
			h.gone(heldBy(ip, "a"))
			h.is(heldBy(ip, "b"))
			h.is(showing("b", nil, ip))
		}, ""},
		{"two that share", func(h *told) {
			h.is(heldBy(ip, "a", "b"))
			h.is(showing("a", shares(80), ip))
			h.is(showing("b", shares(443), ip))
		}, ""},
		{"two that do not share", func(h *told) {
			h.is(heldBy(ip, "a", "b"))
			h.is(showing("a", nil, ip))
			h.is(showing("b", nil, ip))
		}, "doubled: default/b and default/a both show 192.0.2.0"},
		{"two that share, and have a port in common", func(h *told) {
			h.is(heldBy(ip, "a", "b"))
			h.is(showing("a", shares(80), ip))
			h.is(showing("b", shares(80), ip))
		}, "doubled: default/b and default/a both show 192.0.2.0"},
		{"one of another namespace", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(showing("a", shares(80), ip))
			h.is(heldBy(ip, "a"))
			h.events[2].address.Annotations["plinth.dev/shared-by"] = "default/a,victim/b"
			h.is(showing("b", func(svc *v1.Service) { shares(443)(svc); svc.Namespace = "victim" }, ip))
		}, "doubled: victim/b and default/a both show 192.0.2.0"},
		{"one that is being deleted still shows it", func(h *told) {
			h.is(heldBy(ip, "a", "b"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", deleting, ip))
			h.is(showing("b", nil, ip))
		}, "doubled: default/b and default/a both show 192.0.2.0"},
		{"the second family is added", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(heldBy("2001:db8::", "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", nil, ip, "2001:db8::"))
		}, ""},
		{"it moves", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(heldBy(next, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", nil, next))
		}, "moved: default/a showed [192.0.2.0] and now shows [192.0.2.1]"},
		{"it is shown no more", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", nil))
		}, "moved: default/a showed [192.0.2.0] and now shows []"},
		{"it moves since it asks for another", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", annotated("plinth.dev/ips", next), ip))
			h.is(heldBy(next, "a"))
			h.is(showing("a", annotated("plinth.dev/ips", next), next))
			h.gone(heldBy(ip, "a"))
		}, ""},
		{"it moves on from what it asked for", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(heldBy(next, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", annotated("plinth.dev/ips", next), ip))
			h.is(showing("a", annotated("plinth.dev/ips", next), next))
			h.is(showing("a", annotated("plinth.dev/ips", next), ip))
		}, "moved: default/a showed [192.0.2.1] and now shows [192.0.2.0]"},
		{"its successor of that name has another", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(heldBy(next, "a"))
			h.is(showing("a", nil, ip))
			h.gone(showing("a", nil, ip))
			h.is(showing("a", func(svc *v1.Service) { svc.UID = "second" }, next))
		}, ""},
		{"the address is given back before the status is cleared", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(showing("a", nil, ip))
			h.is(showing("a", deleting, ip))
			h.gone(heldBy(ip, "a"))
			h.is(showing("a", deleting))
		}, "not held: default/a shows 192.0.2.0, which nobody holds"},
		{"it shows what another holds", func(h *told) {
			h.is(heldBy(ip, "b"))
			h.is(showing("a", nil, ip))
		}, "not held: default/a shows 192.0.2.0, which [default/b] hold"},
		{"it shows what another program holds", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.events[0].address.Labels = nil
			h.is(showing("a", nil, ip))
		}, "not held: default/a shows 192.0.2.0, which"},
		{"the watches are not in step", func(h *told) {
			h.is(heldBy(ip, "a"))
			h.is(showing("a", nil, ip))
			slices.Reverse(h.events)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h told
			tt.tell(&h)
			var got []string
			for _, c := range replay(h.events).violations {
				got = append(got, c.text)
			}
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("a law is said to be broken: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)):
				t.Errorf("got %q, want one that begins with %q", got, tt.want)
			}
		})
	}
}

// A recorder that was told less than there was says so.
func TestRecorderIsBlindOnceAWatchCannotGoOn(t *testing.T) {
	c := newCluster(t)
	r := c.record()
	c.service("before")
	c.caughtUp(r)
	c.Expire()
	c.Eventually(30*time.Second, "the recorder notices", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.blind == nil {
			return fmt.Errorf("it takes the %d events that it was told for all", len(r.events))
		}
		return nil
	})
}
