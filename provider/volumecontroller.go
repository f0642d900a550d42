package provider

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"plinth.dev/plinth/inventory"
)

// volumeController labels PersistentVolumes with the place that they are in, so
// that the scheduler puts their pods there. Nothing in Kubernetes asks
// PVLabeler any more.
type volumeController struct {
	cloud   *Cloud
	volumes corelisters.PersistentVolumeLister
	queue   *queue
}

// startVolumeController starts the controller of PersistentVolumes.
func startVolumeController(ctx context.Context, c *Cloud, _ start) error {
	volumes := c.informers.Core().V1().PersistentVolumes()
	v := &volumeController{cloud: c, volumes: volumes.Lister()}
	v.queue = newQueue("plinth_volumes", c.log, v.sync)
	touch := func(o any) { v.queue.Add(o.(*v1.PersistentVolume).Name) }
	_, err := volumes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: touch, UpdateFunc: func(_, o any) { touch(o) },
	})
	if err != nil {
		return err
	}
	go v.run(ctx, volumes.Informer().HasSynced, c.informers.Core().V1().Nodes().Informer().HasSynced)
	return nil
}

func (v *volumeController) run(ctx context.Context, synced ...cache.InformerSynced) {
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	v.cloud.follow(func(*inventory.Inventory) { v.all() })
	v.queue.run(ctx, 2)
}

func (v *volumeController) all() {
	all, err := v.volumes.List(labels.Everything())
	if err != nil {
		v.cloud.log.Error("cannot list volumes", "err", err)
	}
	for _, pv := range all {
		v.queue.Add(pv.Name)
	}
}

// sync adds the labels that a volume has not. Those that are there stay, whoever
// set them.
func (v *volumeController) sync(ctx context.Context, name string) error {
	pv, err := v.volumes.Get(name)
	if apierrors.IsNotFound(err) || v.cloud.inventory() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := v.cloud.GetLabelsForVolume(ctx, pv)
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
	if _, err := v.cloud.client.CoreV1().PersistentVolumes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	v.cloud.log.Info("labelled a volume", "volume", name, "labels", want)
	return nil
}
