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
)

func TestServedByAnEarlierProcessIsNotNewToTheStockController(t *testing.T) {
	before := loadBalancerService(full)
	waits := loadBalancerService(func(svc *v1.Service) { svc.Name = "waits" })
	leaves := loadBalancerService(full, func(svc *v1.Service) {
		svc.Name, svc.DeletionTimestamp = "leaves", &metav1.Time{Time: noon}
	})
	if !served(before) || served(waits) || served(leaves) {
		t.Fatal("who is served", served(before), served(waits), served(leaves))
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
