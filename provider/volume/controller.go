package volume

import (
	"context"
	"encoding/json"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/queue"
)

// Controller gives PersistentVolumes the labels of their places. Nothing in Kubernetes asks
// a cloud provider's PVLabeler for them any more, so there is none.
type Controller struct {
	Places  Places
	InForce *source.InForce
	Client  kubernetes.Interface
	Log     *slog.Logger

	volumes corelisters.PersistentVolumeLister
	queue   *queue.Queue
}

// workers is how many volumes are looked at at once.
const workers = 2

// Start starts the controller, which runs until ctx ends.
func (c *Controller) Start(ctx context.Context, informers informers.SharedInformerFactory) error {
	volumes := informers.Core().V1().PersistentVolumes()
	c.volumes = volumes.Lister()
	c.queue = queue.New("plinth_volumes", c.Log, c.sync)
	touch := func(o any) { c.queue.Add(o.(*v1.PersistentVolume).Name) }
	_, err := volumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: touch, UpdateFunc: func(_, o any) { touch(o) },
	})
	if err != nil {
		return err
	}
	go c.run(ctx, volumes.Informer().HasSynced, informers.Core().V1().Nodes().Informer().HasSynced)
	return nil
}

func (c *Controller) run(ctx context.Context, synced ...cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	c.InForce.Follow(func(*inventory.Inventory) { c.all() })
	c.queue.Run(ctx, workers)
}

func (c *Controller) all() {
	all, err := c.volumes.List(labels.Everything())
	if err != nil {
		c.Log.Error("cannot list volumes", "err", err)
	}
	for _, pv := range all {
		c.queue.Add(pv.Name)
	}
}

// sync adds the labels that a volume has not. Those that are there stay, whoever
// set them.
func (c *Controller) sync(ctx context.Context, name string) error {
	pv, err := c.volumes.Get(name)
	inv := c.InForce.Get()
	if apierrors.IsNotFound(err) || inv == nil {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := c.Places.Labels(inv, pv)
	if err != nil {
		return err
	}
	for key := range pv.Labels {
		delete(want, key)
	}
	if len(want) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": want, "resourceVersion": pv.ResourceVersion}})
	if err != nil {
		return err
	}
	if _, err := c.Client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	c.Log.Info("labelled a volume", "volume", name, "labels", want)
	return nil
}
