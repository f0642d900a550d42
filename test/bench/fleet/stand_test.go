package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/procfs"
)

// stand is a cluster of many Nodes and Services, with a controller manager.
type stand struct {
	*apiserver.Controller
	b       *testing.B
	fast    kubernetes.Interface // speaks protobuf, so that it takes little of the machine's time
	manager *apiserver.Process
	slices  []*discoveryv1.EndpointSlice // as they are stored
	edit    int                          // of the inventory in force

	reported int          // Nodes so far
	replaced atomic.Int64 // pods so far
}

// contender is what each of some Nodes has.
type contender struct {
	name       string
	kubeconfig string // empty: nobody watches
}

// nobody is the contender that has no watchers.
var nobody = contender{name: "nobody"}

// ownLimits are the API server's defaults: tests raise them.
var ownLimits = []string{"--max-requests-inflight=400", "--max-mutating-requests-inflight=200"}

func newStand(b *testing.B) *stand {
	b.Helper()
	if *pods > *services || rackSize() > 64 || *watched >= *nodes {
		b.Fatal("there are to be no more pods than Services, no more than 64 machines in a rack, and more Nodes than watchers")
	}
	if measured := renewals*renewWindow + *resting + rolloutTime() + quietAfter + editWindow; measured > watchesLeast-time.Minute {
		b.Fatalf("a turn looks at watches for %s: with less of -rest or -pods none of them ends meanwhile, which the earliest do after %s", measured, watchesLeast)
	}
	s := &stand{b: b, Controller: apiserver.NewController(b, apiserver.Options{Unaudited: true, Fresh: true, Flags: ownLimits})}
	config := rest.CopyConfig(s.Config)
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	check(b, err)
	s.fast = client
	s.ApplyRights("rbac-agent.yaml")
	s.Kubectl("create", "serviceaccount", "kube-proxy", "--namespace=kube-system")
	s.Kubectl("create", "clusterrolebinding", "kube-proxy", "--clusterrole=system:node-proxier", "--serviceaccount=kube-system:kube-proxy")
	return s
}

// contenders are those that take turns, besides nobody.
func (s *stand) contenders() (all []contender) {
	for _, c := range []struct{ name, account string }{{"kube-proxy", "kube-proxy"}, {"agent", "plinth-agent"}} {
		if *only == "" || slices.Contains(strings.Split(*only, ","), c.name) {
			all = append(all, contender{c.name, s.WriteKubeconfig(c.name, s.AccountToken(c.account))})
		}
	}
	return all
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// populate creates all objects, then starts the controller manager, and notes how long it takes until every Service has
// its VIP and every Node is initialised ("s/first").
func (s *stand) populate(r *results.Result) {
	s.b.Helper()
	s.slices = make([]*discoveryv1.EndpointSlice, *services)
	s.each(*nodes, s.createNode)
	s.each(*services, func(ctx context.Context, i int) (err error) {
		s.slices[i], err = s.fast.DiscoveryV1().EndpointSlices(namespace).Create(ctx, sliceObject(i), metav1.CreateOptions{})
		return err
	})
	s.each(*services, func(ctx context.Context, i int) error { return s.createService(ctx, serviceName(i)) })
	s.edit = 1
	s.EditInventory(inventoryOf(s.edit), nil)
	begun := time.Now()
	s.manager = s.Launch()
	s.awaitServed()
	r.Add("s/first", time.Since(begun).Seconds())
	s.atRest()
}

func (s *stand) createNode(ctx context.Context, i int) error {
	_, err := s.fast.CoreV1().Nodes().Create(ctx, nodeObject(i), metav1.CreateOptions{FieldManager: "kubelet"})
	return err
}

func (s *stand) createService(ctx context.Context, name string) error {
	_, err := s.fast.CoreV1().Services(namespace).Create(ctx, serviceObject(name), metav1.CreateOptions{})
	return err
}

// each does something for each number below n, as eight clients at once.
func (s *stand) each(n int, do func(ctx context.Context, i int) error) {
	s.b.Helper()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < n; i += 8 {
				if err := do(s.b.Context(), i); err != nil {
					s.b.Errorf("number %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if s.b.Failed() {
		s.b.FailNow()
	}
}

// servedWithin bounds the work of a controller manager that starts with everything still to do.
const servedWithin = 20 * time.Minute

// awaitServed waits until the controller manager has done all that there is to do for Services and Nodes.
func (s *stand) awaitServed() {
	s.b.Helper()
	ctx, stop := context.WithTimeout(s.b.Context(), servedWithin)
	defer stop()
	ofServices, err := s.fast.CoreV1().Services(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.type=LoadBalancer"})
	check(s.b, err)
	s.await(ctx, "Services have a VIP", ofServices, *services, func(obj runtime.Object) bool {
		svc, ok := obj.(*corev1.Service)
		return ok && hasVIP(svc)
	})
	ofNodes, err := s.fast.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	check(s.b, err)
	s.await(ctx, "Nodes are initialised", ofNodes, *nodes, func(obj runtime.Object) bool {
		n, ok := obj.(*corev1.Node)
		return ok && apiserver.Initialised(n) == nil
	})
}

func hasVIP(svc *corev1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) > 0 }

// await follows objects until so many of them are done.
func (s *stand) await(ctx context.Context, what string, w watch.Interface, n int, done func(obj runtime.Object) bool) {
	s.b.Helper()
	defer w.Stop()
	have := map[string]bool{}
	for len(have) < n {
		event, open := <-w.ResultChan()
		if !open || event.Type == watch.Error {
			s.b.Fatalf("%s: %d of %d when the watch ended: %v, %v", what, len(have), n, event.Object, ctx.Err())
		}
		if of, err := meta.Accessor(event.Object); err == nil && done(event.Object) {
			have[of.GetName()] = true
		}
	}
}

// restart has the controller manager begin anew, and notes how long it takes until a Service and a Node that came while
// none ran have what they need ("s/start"), and its memory once it is at rest.
func (s *stand) restart(round int, r *results.Result) {
	s.b.Helper()
	s.manager.Kill()
	ctx, service, last := s.b.Context(), fmt.Sprintf("late-%d", round), *nodes-1
	check(s.b, s.fast.CoreV1().Nodes().Delete(ctx, apiserver.MachineName(last), metav1.DeleteOptions{}))
	check(s.b, s.createNode(ctx, last))
	check(s.b, s.createService(ctx, service))
	s.Limited = s.WriteKubeconfig("ccm", s.AccountToken(apiserver.ControllerName)) // a token is good for an hour
	begun := time.Now()
	s.manager = s.Launch()
	s.Eventually(5*time.Minute, "the controller manager does what came while none ran", func(ctx context.Context) error {
		svc, err := s.fast.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
		if err == nil && !hasVIP(svc) {
			err = errors.New("the Service has no VIP")
		}
		if err != nil {
			return err
		}
		n, err := s.fast.CoreV1().Nodes().Get(ctx, apiserver.MachineName(last), metav1.GetOptions{})
		if err != nil {
			return err
		}
		return apiserver.Initialised(n)
	})
	r.Add("s/start", time.Since(begun).Seconds())
	check(s.b, s.fast.CoreV1().Services(namespace).Delete(ctx, service, metav1.DeleteOptions{}))
	s.atRest()
	time.Sleep(quietAfter)
	s.addMemory(r)
}

// addMemory notes what memory the controller manager has, and had at most.
func (s *stand) addMemory(r *results.Result) {
	s.b.Helper()
	used, err := procfs.Of(s.manager.Pid())
	check(s.b, err)
	peak, err := procfs.Peak(s.manager.Pid())
	check(s.b, err)
	r.Add("MB", used.Memory)
	r.Add("MB-heap", used.Private)
	r.Add("MB-peak", peak)
}

// atRest waits until nobody has written for some seconds.
func (s *stand) atRest() {
	s.b.Helper()
	const calm = 3 * time.Second
	last, changed := s.revision(), time.Now()
	s.Eventually(5*time.Minute, "nobody writes any more", func(context.Context) error {
		if now := s.revision(); now != last {
			last, changed = now, time.Now()
		}
		if time.Since(changed) < calm {
			time.Sleep(time.Second)
			return fmt.Errorf("the resource version is %s", last)
		}
		return nil
	})
}

// revision is the resource version of the latest write to anything.
func (s *stand) revision() string {
	s.b.Helper()
	list, err := s.fast.CoreV1().Nodes().List(s.b.Context(), metav1.ListOptions{Limit: 1})
	check(s.b, err)
	return list.ResourceVersion
}
