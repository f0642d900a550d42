package services

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// event is a change of a Service or an IPAddress object.
type event struct {
	version uint64 // of etcd, by which changes of both kinds are in order
	gone    bool
	at      time.Time // when the watch told it
	service *v1.Service
	address *networkingv1.IPAddress
}

// eventOf reads what a watch told. Services and IPAddress objects are in one etcd, so that
// their resource versions are comparable.
func eventOf(e watch.Event, at time.Time) (event, error) {
	object, ok := e.Object.(metav1.Object)
	if !ok || e.Type == watch.Error {
		return event{}, fmt.Errorf("the watch says %s: %v", e.Type, e.Object)
	}
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return event{}, fmt.Errorf("%s: %w", object.GetName(), err)
	}
	out := event{version: version, gone: e.Type == watch.Deleted, at: at}
	out.service, _ = e.Object.(*v1.Service)
	out.address, _ = e.Object.(*networkingv1.IPAddress)
	return out, nil
}

func (e event) String() string {
	did := "is"
	if e.gone {
		did = "is gone, was"
	}
	at := e.at.Format("15:04:05.000")
	if svc := e.service; svc != nil {
		return fmt.Sprintf("%s %d %s %s %s, deleting %t, shows %v, asks for %s, ports %v", at, e.version, nameOf(svc), svc.UID, did, svc.DeletionTimestamp != nil, shown(svc), askOf(svc), portsOf(svc))
	}
	return fmt.Sprintf("%s %d %s %s %s, held by %v", at, e.version, e.address.Name, e.address.UID, did, holders(e.address))
}

// concerns reports whether a change is one of Services, of addresses, or of statuses that
// show these.
func (e event) concerns(subjects []string) bool {
	is := func(name string) bool { return slices.Contains(subjects, name) }
	if e.service != nil {
		return is(nameOf(e.service)) || slices.ContainsFunc(shown(e.service), is)
	}
	return is(e.address.Name)
}

// history is what an API server has held, change by change, and which of its laws were
// broken on the way:
//
//   - no address is in two statuses of Services that do not share it, be it in that of one
//     that is being deleted, which kube-proxy serves until it is gone;
//   - what a status shows its Service holds;
//   - a Service that shows an address goes on to, while it asks for the same.
type history struct {
	services   map[string]*v1.Service
	addresses  map[string]*networkingv1.IPAddress
	reported   map[types.UID]report
	owners     map[string]string // of each address that Plinth has given, who held it last
	violations []violation
}

// report is what a Service showed last, and what it asked for then.
type report struct {
	ips []string
	ask string
}

// violation is a broken law.
type violation struct {
	event
	subjects []string // the Services and addresses that tell more
	text     string
}

// replay judges events, in the order of etcd.
func replay(events []event) *history {
	h := &history{services: map[string]*v1.Service{}, addresses: map[string]*networkingv1.IPAddress{}, reported: map[types.UID]report{}, owners: map[string]string{}}
	for _, e := range inOrder(events) {
		if e.service != nil {
			h.change(e)
		} else {
			h.claim(e)
		}
	}
	return h
}

// inOrder sorts events as etcd has seen them.
func inOrder(events []event) []event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b event) int { return cmp.Compare(a.version, b.version) })
}

func (h *history) violated(e event, subjects []string, format string, args ...any) {
	h.violations = append(h.violations, violation{e, subjects, fmt.Sprintf(format, args...)})
}

// change takes in what became of a Service.
func (h *history) change(e event) {
	svc := e.service
	name := nameOf(svc)
	if e.gone {
		delete(h.services, name)
		return
	}
	h.services[name] = svc
	had, has, ask := h.reported[svc.UID], shown(svc), askOf(svc)
	if had.ask == ask && svc.DeletionTimestamp == nil {
		for _, ip := range had.ips {
			if !slices.Contains(has, ip) {
				h.violated(e, slices.Concat([]string{name}, had.ips, has), "moved: %s showed %v and now shows %v, and asked for the same all the time: %s", name, had.ips, has, ask)
			}
		}
	}
	// Once it asks for something else, what it showed says nothing, until it shows the answer.
	if had.ask == ask || !slices.Equal(had.ips, has) {
		h.reported[svc.UID] = report{has, ask}
	}
	for _, ip := range has {
		h.doubled(e, svc, ip)
		h.held(e, svc, ip)
	}
}

func (h *history) doubled(e event, svc *v1.Service, ip string) {
	for _, name := range slices.Sorted(maps.Keys(h.services)) {
		other := h.services[name]
		if name != nameOf(svc) && slices.Contains(shown(other), ip) && !mayShare(svc, other) {
			h.violated(e, []string{ip}, "doubled: %s and %s both show %s", nameOf(svc), name, ip)
		}
	}
}

func (h *history) held(e event, svc *v1.Service, ip string) {
	a := h.addresses[ip]
	switch {
	case a == nil:
		h.violated(e, []string{nameOf(svc), ip}, "not held: %s shows %s, which nobody holds", nameOf(svc), ip)
	case !isOurs(a) || !slices.Contains(holders(a), nameOf(svc)):
		h.violated(e, []string{nameOf(svc), ip}, "not held: %s shows %s, which %v hold", nameOf(svc), ip, holders(a))
	}
}

// claim takes in who holds an address.
func (h *history) claim(e event) {
	ip := e.address.Name
	if e.gone {
		delete(h.addresses, ip)
	} else {
		h.addresses[ip] = e.address
	}
	if isOurs(e.address) {
		h.owners[ip] = holders(e.address)[0]
	}
	for _, name := range slices.Sorted(maps.Keys(h.services)) {
		if svc := h.services[name]; slices.Contains(shown(svc), ip) {
			h.held(e, svc, ip)
		}
	}
}

// nameOf is namespace/name.
func nameOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func isOurs(a *networkingv1.IPAddress) bool {
	return a.Labels[networkingv1.LabelManagedBy] == "plinth.dev"
}

// shown are the addresses in a status.
func shown(svc *v1.Service) (ips []string) {
	for _, i := range svc.Status.LoadBalancer.Ingress {
		ips = append(ips, i.IP)
	}
	return ips
}

// keysOfSharing are the annotations by which a Service shares its VIP.
var keysOfSharing = []string{"plinth.dev/sharing-key", "metallb.io/allow-shared-ip"}

// askOf says which addresses a Service asks for.
func askOf(svc *v1.Service) string {
	ask := []string{string(svc.Spec.Type)}
	if svc.Spec.IPFamilyPolicy != nil {
		ask = append(ask, string(*svc.Spec.IPFamilyPolicy))
	}
	for _, f := range svc.Spec.IPFamilies {
		ask = append(ask, string(f))
	}
	for _, key := range append([]string{"plinth.dev/pool", "plinth.dev/ips"}, keysOfSharing...) {
		if v := svc.Annotations[key]; v != "" {
			ask = append(ask, key+"="+v)
		}
	}
	return strings.Join(ask, " ")
}

func portsOf(svc *v1.Service) (ports []int32) {
	for _, p := range svc.Spec.Ports {
		ports = append(ports, p.Port)
	}
	return ports
}

// mayShare reports whether two Services may have one VIP.
func mayShare(x, y *v1.Service) bool {
	return x.Namespace == y.Namespace && sharingKey(x) != "" && sharingKey(x) == sharingKey(y) &&
		x.Spec.ExternalTrafficPolicy == y.Spec.ExternalTrafficPolicy &&
		!slices.ContainsFunc(x.Spec.Ports, func(p v1.ServicePort) bool {
			return slices.ContainsFunc(y.Spec.Ports, func(q v1.ServicePort) bool { return p.Port == q.Port && p.Protocol == q.Protocol })
		})
}

func sharingKey(svc *v1.Service) string {
	for _, key := range keysOfSharing {
		if v := svc.Annotations[key]; v != "" {
			return v
		}
	}
	return ""
}
