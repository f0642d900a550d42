// Command floor makes the writes that Plinth makes for Services, with as many workers and
// the same limits, and decides nothing: addresses are counted up. What it reaches in a second
// is what the API server and its client let anybody reach who makes these writes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"plinth.dev/plinth/provider/event"
)

// These are Plinth's.
const (
	workers   = 16
	qps       = 2000
	burst     = 4000
	managedBy = "plinth.dev"
	condition = "plinth.dev/VIPAllocated"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	first := flag.String("first", "", "the first address")
	pool := flag.String("pool", "", "the name of the pool")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *first, *pool); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, first, pool string) error {
	from, err1 := netip.ParseAddr(first)
	config, err2 := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	config.QPS, config.Burst, config.ContentType = qps, burst, "application/vnd.kubernetes.protobuf"
	client, err1 := kubernetes.NewForConfig(config)
	events, err2 := kubernetes.NewForConfig(rest.CopyConfig(config)) // with limits of its own, as Plinth's
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: events.CoreV1().Events("")})
	f := &floor{client: client, from: from, pool: pool,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Minute)), // as Plinth's
	}
	backlog := event.NewBacklog(broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "floor"}), func() bool { return f.queue.Len() > 0 }, slog.Default())
	go backlog.Run(ctx)
	f.recorder = backlog
	return f.run(ctx)
}

// floor serves all Services of type LoadBalancer.
type floor struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	from     netip.Addr
	pool     string
	given    atomic.Uint32
}

func (f *floor) run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(f.client, 0)
	services := factory.Core().V1().Services()
	queue := f.queue
	add := func(obj any) {
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) }}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range workers {
		go func() {
			for {
				name, quit := queue.Get()
				if quit {
					return
				}
				svc, err := services.Lister().Services(name.Namespace).Get(name.Name)
				if err == nil {
					err = f.serve(ctx, svc)
				}
				if err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "floor: %s: %v\n", name, err)
					queue.AddRateLimited(name)
				}
				queue.Done(name)
			}
		}()
	}
	<-ctx.Done()
	queue.ShutDown()
	return nil
}

// serve makes the writes for one Service. It is looked at once more after each of them, and
// then there is nothing to do.
func (f *floor) serve(ctx context.Context, svc *v1.Service) error {
	ours, shown := slices.Contains(svc.Finalizers, servicehelper.LoadBalancerCleanupFinalizer), svc.Status.LoadBalancer.Ingress
	switch {
	case svc.Spec.Type != v1.ServiceTypeLoadBalancer:
		return nil
	case svc.DeletionTimestamp != nil && ours && len(shown) > 0:
		return f.release(ctx, svc, shown[0].IP)
	case svc.DeletionTimestamp == nil && len(shown) == 0:
		return f.give(ctx, svc)
	}
	return nil
}

func (f *floor) give(ctx context.Context, svc *v1.Service) error {
	a := f.next()
	if _, err := f.client.NetworkingV1().IPAddresses().Create(ctx, f.claim(a, svc), metav1.CreateOptions{}); err != nil {
		return err
	}
	vip := v1.LoadBalancerIPModeVIP
	said := fmt.Sprintf("%s of pool %s", a, f.pool)
	err := f.patch(ctx, svc, map[string]any{"finalizers": []string{servicehelper.LoadBalancerCleanupFinalizer}}, map[string]any{
		"loadBalancer": map[string]any{"ingress": []v1.LoadBalancerIngress{{IP: a.String(), IPMode: &vip}}},
		"conditions": []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Allocated", Message: said,
			LastTransitionTime: metav1.Time{Time: time.Now().Truncate(time.Second)}}},
	})
	if err == nil {
		f.recorder.Event(svc, v1.EventTypeNormal, "Allocated", said)
	}
	return err
}

func (f *floor) release(ctx context.Context, svc *v1.Service, ip string) error {
	err := f.patch(ctx, svc, map[string]any{"$deleteFromPrimitiveList/finalizers": []string{servicehelper.LoadBalancerCleanupFinalizer}}, map[string]any{
		"loadBalancer": nil,
		"conditions":   []map[string]any{{"$patch": "delete", "type": condition}},
	})
	if err != nil {
		return err
	}
	return f.client.NetworkingV1().IPAddresses().Delete(ctx, ip, metav1.DeleteOptions{})
}

// next counts addresses up.
func (f *floor) next() netip.Addr {
	n := f.given.Add(1) - 1
	b := f.from.As4()
	sum := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	sum += n
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// claim is an object of the size of Plinth's.
func (f *floor) claim(a netip.Addr, svc *v1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:        a.String(),
			Labels:      map[string]string{networkingv1.LabelManagedBy: managedBy, networkingv1.LabelIPAddressFamily: "IPv4"},
			Annotations: map[string]string{"plinth.dev/service-uid": string(svc.UID), "plinth.dev/pool": f.pool, "plinth.dev/format": "1"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
	}
}

// patch writes a status, for the Service as it was read.
func (f *floor) patch(ctx context.Context, svc *v1.Service, metadata, status map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = svc.UID, svc.ResourceVersion
	data, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return err
	}
	_, err = f.client.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}
