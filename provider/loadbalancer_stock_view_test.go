package provider

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	stockservice "k8s.io/cloud-provider/controllers/service"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
)

func TestServedByAnEarlierProcessIsNotNewToTheStockController(t *testing.T) {
	before := loadBalancerService(full)
	waits := loadBalancerService(func(svc *v1.Service) { svc.Name = "waits" })
	leaves := loadBalancerService(full, func(svc *v1.Service) {
		svc.Name, svc.DeletionTimestamp = "leaves", &metav1.Time{Time: noon}
	})
	if !fullyWritten(before) || fullyWritten(waits) || fullyWritten(leaves) {
		t.Fatal("who is served", fullyWritten(before), fullyWritten(waits), fullyWritten(leaves))
	}
	client := fake.NewClientset(before, waits, leaves)
	factory := informers.NewSharedInformerFactory(client, 0)
	var mu sync.Mutex
	var told []string
	tell := func(what string, obj any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, what+" "+obj.(*v1.Service).Name)
	}
	handler, err := stockServices{factory.Core().V1().Services()}.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell("new", obj) },
		UpdateFunc: func(_, obj any) { tell("changed", obj) },
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), handler.HasSynced) {
		t.Fatal("the informer never had its first list")
	}

	changed := before.DeepCopy()
	changed.Labels = map[string]string{"tier": "db"}
	if _, err := client.CoreV1().Services("d").Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"changed s", "new leaves", "new waits"}
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 5*time.Second, true, func(context.Context) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(told)
		return slices.Equal(told, want), nil
	})
	if err != nil {
		t.Errorf("it was told %v, want %v", told, want)
	}
}

// asked is a load balancer that has nothing for the stock controller to do, and notes
// what that one asks.
type asked struct {
	cloudprovider.LoadBalancer
	mu  sync.Mutex
	all []string
}

func (a *asked) note(what string, svc *v1.Service, nodes []*v1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what += " " + svc.Name
	for _, n := range nodes {
		what += " " + n.Name
	}
	a.all = append(a.all, what)
}

func (a *asked) EnsureLoadBalancer(_ context.Context, _ string, svc *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	a.note("ensure", svc, nodes)
	return nil, cloudprovider.ImplementedElsewhere
}

func (a *asked) UpdateLoadBalancer(_ context.Context, _ string, svc *v1.Service, nodes []*v1.Node) error {
	a.note("update", svc, nodes)
	return cloudprovider.ImplementedElsewhere
}

func (a *asked) EnsureLoadBalancerDeleted(_ context.Context, _ string, svc *v1.Service) error {
	a.note("delete", svc, nil)
	return nil
}

// become waits until that was asked, and nothing else.
func (a *asked) become(t *testing.T, want ...string) {
	t.Helper()
	var all []string
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		all = slices.Clone(a.all)
		return slices.Equal(all, want), nil
	})
	if err != nil {
		t.Fatalf("the stock controller asked %q, want %q", all, want)
	}
}

type askedCloud struct {
	cloudprovider.Interface
	balancer *asked
}

func (c askedCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.balancer, true }

func (askedCloud) ProviderName() string { return Name }

// TestStockControllerRemembersNoNodeAndNoServiceThatIsGone has the stock controller serve
// Services that get nothing, and so no finalizer, while Nodes come and go: it drops a
// Service that it remembers only after a last look at its load balancer.
func TestStockControllerRemembersNoNodeAndNoServiceThatIsGone(t *testing.T) {
	node := func(name string) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{ProviderID: name}}
	}
	client := fake.NewClientset(loadBalancerService(), node("m1"), node("m2"))
	factory := informers.NewSharedInformerFactory(client, 0)
	own := New(Options{}).balancer
	own.services = factory.Core().V1().Services().Lister()
	balancer := &asked{}
	stock, err := stockservice.New(askedCloud{balancer: balancer}, serviceClient{client, client, own},
		stockServices{factory.Core().V1().Services()}, stockNodes{factory.Core().V1().Nodes()}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	go stock.Run(t.Context(), 1, controllersmetrics.NewControllerManagerMetrics("test"))
	balancer.become(t, "ensure s any")

	if _, err := client.CoreV1().Nodes().Create(t.Context(), node("m3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Services("d").Delete(t.Context(), "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	balancer.become(t, "ensure s any", "delete s")
}

func TestServiceThatIsGoneIsShownToTheStockControllerHoweverThatWasNoticed(t *testing.T) {
	svc := loadBalancerService()
	for _, gone := range []any{svc, cache.DeletedFinalStateUnknown{Key: "d/s", Obj: svc}} {
		var shown any
		stockHandler{cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { shown = obj }}}.OnDelete(gone)
		if shown != svc {
			t.Errorf("of a %T it is shown %v", gone, shown)
		}
	}
}
