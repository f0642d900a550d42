package provider

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	stockservice "k8s.io/cloud-provider/controllers/service"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/lb"
)

// startServiceController starts the stock controller for Services without a class,
// unless Plinth is to serve its class only.
func startServiceController(ctx context.Context, c *Cloud, s start) error {
	if c.options.ClassOnly {
		return nil
	}
	stock, err := stockservice.New(c,
		serviceClient{Interface: s.config.ClientBuilder.ClientOrDie(s.client), events: s.config.ClientBuilder.ClientOrDie("plinth-events"), balancer: c.balancer},
		stockServices{c.informers.Core().V1().Services()},
		stockNodes{c.informers.Core().V1().Nodes()},
		s.config.ComponentConfig.KubeCloudShared.ClusterName,
		utilfeature.DefaultFeatureGate,
	)
	if err != nil {
		return err
	}
	go stock.Run(ctx, int(s.config.ComponentConfig.ServiceController.ConcurrentServiceSyncs), s.context.ControllerManagerMetrics)
	return nil
}

// serviceClient is what the stock service controller writes with. It sends the
// finalizer and Plinth's condition together with the VIPs, where the controller would
// take two writes; it does not clear the status of a Service that is being deleted,
// which was done before its VIPs were given back, or is Plinth's own controller's by now;
// and it does not send the Events that announce a thing a moment before the Event
// that it is done. Other Events go by a client of their own, so that they hold up
// nothing.
type serviceClient struct {
	kubernetes.Interface
	events   kubernetes.Interface
	balancer *balancer
}

// CoreV1 returns the client of the core API group.
func (c serviceClient) CoreV1() typedv1.CoreV1Interface {
	return serviceCore{c.Interface.CoreV1(), c}
}

type serviceCore struct {
	typedv1.CoreV1Interface
	client serviceClient
}

// Events returns the client of Events.
func (c serviceCore) Events(namespace string) typedv1.EventInterface {
	return quietEvents{c.client.events.CoreV1().Events(namespace), func(e *v1.Event) bool {
		return slices.Contains(announcements, e.Reason)
	}}
}

// Services returns the client of Services.
func (c serviceCore) Services(namespace string) typedv1.ServiceInterface {
	return serviceWrites{c.CoreV1Interface.Services(namespace), namespace, c.client.balancer}
}

// announcements are the Events that are not sent.
var announcements = []string{"EnsuringLoadBalancer", "DeletingLoadBalancer"}

type serviceWrites struct {
	typedv1.ServiceInterface
	namespace string
	balancer  *balancer
}

// servicePatch is what of a patch is looked at.
type servicePatch struct {
	Metadata struct {
		Finalizers []string `json:"finalizers"`
	} `json:"metadata"`
	Status struct {
		LoadBalancer *struct {
			Ingress []v1.LoadBalancerIngress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// clearsVIPs reports whether a patch takes the VIPs off a Service.
func (p servicePatch) clearsVIPs() bool {
	return p.Status.LoadBalancer != nil && len(p.Status.LoadBalancer.Ingress) == 0
}

// writesVIPs reports whether a patch gives a Service its VIPs.
func (p servicePatch) writesVIPs() bool {
	return p.Status.LoadBalancer != nil && len(p.Status.LoadBalancer.Ingress) > 0
}

// vips returns the VIPs that a patch gives a Service.
func (p servicePatch) vips() (all []netip.Addr) {
	for _, i := range p.Status.LoadBalancer.Ingress {
		a, _ := netip.ParseAddr(i.IP)
		all = append(all, a)
	}
	return all
}

// addsFinalizer reports whether a patch puts the finalizer on a Service, or leaves it there.
func (p servicePatch) addsFinalizer() bool {
	return slices.Contains(p.Metadata.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
}

// Patch sends a patch of the stock controller, changed as [serviceClient] says.
func (w serviceWrites) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*v1.Service, error) {
	send := func(data []byte) (*v1.Service, error) {
		return w.ServiceInterface.Patch(ctx, name, kind, data, o, sub...)
	}
	svc, err := w.balancer.services.Services(w.namespace).Get(name)
	var p servicePatch
	if kind != types.StrategicMergePatchType || json.Unmarshal(data, &p) != nil {
		return send(data)
	}
	switch gone := err != nil; {
	case p.clearsVIPs() && (gone || svc.DeletionTimestamp != nil):
		return &v1.Service{}, nil // see relinquishHeld and isStale
	case p.writesVIPs() && gone:
		return &v1.Service{}, nil // a later one of its name is not to get them
	case p.writesVIPs():
		return w.writeVIPs(svc, p, data, send)
	case gone || svc.DeletionTimestamp != nil:
		return unlessGone(send(data))
	case p.clearsVIPs():
		return clearVIPs(svc, data, send)
	case p.addsFinalizer() && (!hasOurVIPs(svc) || servicehelper.HasLBFinalizer(svc)):
		return svc, nil // it goes with the VIPs, or went with them already; see withCondition
	}
	return send(data)
}

// unlessGone is the answer to a patch of a Service that is being deleted. One that is gone
// has no finalizer left, which is what was asked for.
func unlessGone(svc *v1.Service, err error) (*v1.Service, error) {
	if apierrors.IsNotFound(err) {
		return &v1.Service{}, nil
	}
	return svc, err
}

// clearVIPs sends a patch that takes the VIPs off a Service, and has it take Plinth's
// condition off, too. The status of a Service of Plinth's class says what the Service got,
// or soon will: it is left alone.
func clearVIPs(svc *v1.Service, data []byte, send func([]byte) (*v1.Service, error)) (*v1.Service, error) {
	if isLiveOfOurClass(svc) {
		return svc, nil
	}
	return send(merged(data, map[string]any{"conditions": []any{withoutCondition}}, nil))
}

// writeVIPs sends a patch that gives a Service its VIPs, unless others were decided
// meanwhile, and has Plinth's own controller write them if it fails.
func (w serviceWrites) writeVIPs(svc *v1.Service, p servicePatch, data []byte, send func([]byte) (*v1.Service, error)) (*v1.Service, error) {
	defer w.balancer.occupy(keyOf(svc))()
	if s, known := w.balancer.standing(keyOf(svc)); !known || !slices.Equal(addrs(s.decision.VIPs), p.vips()) {
		w.balancer.queue.Add(keyOf(svc).String())
		return svc, nil
	}
	out, err := send(w.balancer.withCondition(svc, data))
	if err != nil && !apierrors.IsNotFound(err) {
		w.balancer.handOver(keyOf(svc))
	}
	if apierrors.IsConflict(err) {
		return svc, nil
	}
	return out, err
}

// hasOurVIPs reports whether Plinth has written VIPs into a status; another balancer's do not
// count.
func hasOurVIPs(svc *v1.Service) bool {
	return len(svc.Status.LoadBalancer.Ingress) > 0 && meta.FindStatusCondition(svc.Status.Conditions, lb.VIPAllocated) != nil
}

// handOver has Plinth's own controller write a status that the stock one could not write,
// and would try again only after its backoff.
func (b *balancer) handOver(k lb.ServiceKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.standings[k]; s != nil {
		s.ours = true
	}
	b.queue.Add(k.String())
}

// withCondition adds Plinth's condition, and the finalizer where it is missing, to a
// patch that gives a Service its VIPs. The patch holds for the Service as it was when
// the VIPs were decided.
func (b *balancer) withCondition(svc *v1.Service, data []byte) []byte {
	s, known := b.standing(keyOf(svc))
	if !known {
		return data
	}
	status, metadata := map[string]any{}, map[string]any{}
	if patch := statusPatch(svc, s.decision, b.now()); patch != nil {
		status, metadata = patch["status"].(map[string]any), patch["metadata"].(map[string]any)
		delete(status, "loadBalancer")
	}
	metadata["resourceVersion"] = s.version
	return merged(data, status, metadata)
}

// merged adds to the status and metadata of a patch.
func merged(data []byte, status, metadata map[string]any) []byte {
	var patch map[string]map[string]any
	if json.Unmarshal(data, &patch) != nil {
		return data
	}
	for section, add := range map[string]map[string]any{"status": status, "metadata": metadata} {
		if patch[section] == nil && len(add) > 0 {
			patch[section] = map[string]any{}
		}
		for k, v := range add {
			patch[section][k] = v
		}
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return data
	}
	return out
}
