package vip

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	typednetworkingv1 "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// versionedClient changes an IPAddress object only for those who know it as it is, as
// the API server does.
type versionedClient struct {
	*fake.Clientset
	mu      sync.Mutex
	changes int
	deleted func() // called when one was, before the answer arrives

	answering func(verb string, o networkingv1.IPAddress) // called once, before an answer that has an object arrives
}

func (c *versionedClient) NetworkingV1() typednetworkingv1.NetworkingV1Interface {
	return versionedGroup{c.Clientset.NetworkingV1(), c}
}

type versionedGroup struct {
	typednetworkingv1.NetworkingV1Interface
	client *versionedClient
}

func (g versionedGroup) IPAddresses() typednetworkingv1.IPAddressInterface {
	return versionedObjects{g.NetworkingV1Interface.IPAddresses(), g.client}
}

type versionedObjects struct {
	typednetworkingv1.IPAddressInterface
	client *versionedClient
}

// next returns the version after the next change of an object, if it is as it was.
func (o versionedObjects) next(ctx context.Context, name string, uid types.UID, version string) (string, error) {
	now, err := o.IPAddressInterface.Get(ctx, name, metav1.GetOptions{})
	if err == nil && (now.UID != uid || now.ResourceVersion != version) {
		err = apierrors.NewConflict(networkingv1.Resource("ipaddresses"), name, fmt.Errorf("it is at %s, not %s", now.ResourceVersion, version))
	}
	o.client.changes++
	return strconv.Itoa(o.client.changes), err
}

func (o versionedObjects) Create(ctx context.Context, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	made, err := o.create(ctx, obj, opts)
	return made, o.answers("create", made, err)
}

func (o versionedObjects) create(ctx context.Context, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	o.client.mu.Lock()
	defer o.client.mu.Unlock()
	o.client.changes++
	obj.ResourceVersion = strconv.Itoa(o.client.changes)
	obj.UID = types.UID("object " + obj.ResourceVersion)
	return o.IPAddressInterface.Create(ctx, obj, opts)
}

func (o versionedObjects) Get(ctx context.Context, name string, opts metav1.GetOptions) (*networkingv1.IPAddress, error) {
	obj, err := o.IPAddressInterface.Get(ctx, name, opts)
	return obj, o.answers("get", obj, err)
}

func (o versionedObjects) List(ctx context.Context, opts metav1.ListOptions) (*networkingv1.IPAddressList, error) {
	list, err := o.IPAddressInterface.List(ctx, opts)
	if err == nil && len(list.Items) > 0 {
		return list, o.answers("list", &list.Items[0], nil)
	}
	return list, err
}

// answers has an answer arrive, once what comes before it has happened.
func (o versionedObjects) answers(verb string, obj *networkingv1.IPAddress, err error) error {
	if f := o.client.answering; f != nil && err == nil {
		o.client.answering = nil
		f(verb, *obj.DeepCopy())
	}
	return err
}

func (o versionedObjects) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*networkingv1.IPAddress, error) {
	obj, err := o.patch(ctx, name, kind, data, opts, sub...)
	return obj, o.answers("patch", obj, err)
}

func (o versionedObjects) patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, sub ...string) (*networkingv1.IPAddress, error) {
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	o.client.mu.Lock()
	defer o.client.mu.Unlock()
	version, err := o.next(ctx, name, types.UID(patch.Metadata["uid"].(string)), patch.Metadata["resourceVersion"].(string))
	if err != nil {
		return nil, err
	}
	patch.Metadata["resourceVersion"] = version
	data, _ = json.Marshal(patch)
	return o.IPAddressInterface.Patch(ctx, name, kind, data, opts, sub...)
}

func (o versionedObjects) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	err := o.delete(ctx, name, opts)
	if f := o.client.deleted; err == nil && f != nil {
		o.client.deleted = nil
		f()
	}
	return err
}

func (o versionedObjects) delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	o.client.mu.Lock()
	defer o.client.mu.Unlock()
	if _, err := o.next(ctx, name, *opts.Preconditions.UID, *opts.Preconditions.ResourceVersion); err != nil {
		return err
	}
	return o.IPAddressInterface.Delete(ctx, name, metav1.DeleteOptions{})
}
