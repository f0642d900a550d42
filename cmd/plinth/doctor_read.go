package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/importer"
	"plinth.dev/plinth/inventory/source"
)

// examiner reads the objects that doctor examines, and notes those that it may not read.
type examiner struct {
	client    kubernetes.Interface
	config    *rest.Config
	date      atomic.Int64 // of the API server's last answer, in Unix seconds; 0: it said none
	namespace string
	objects   doctor.Objects
}

// serverDate is a round tripper that notes the time of the API server.
type serverDate struct {
	next http.RoundTripper
	date *atomic.Int64
}

func (s serverDate) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err == nil {
		if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			s.date.Store(at.Unix())
		}
	}
	return answer, err
}

// readCluster reads a cluster, and the inventory of paths or else that in force.
func (d *consultation) readCluster(cmd *cobra.Command, paths []string) (seen doctor.Cluster, err error) {
	reading := &examiner{}
	if reading.config, err = d.cluster.config(); err != nil {
		return seen, err
	}
	reading.config = rest.CopyConfig(reading.config)
	reading.config.QPS = -1 // its requests are few
	reading.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return serverDate{next, &reading.date} })
	if reading.client, err = kubernetes.NewForConfig(reading.config); err != nil {
		return seen, err
	}
	version, err := reading.client.Discovery().ServerVersion()
	if err != nil {
		return seen, err
	}
	if reading.namespace, err = d.cluster.in(cmd.Context(), reading.client); err != nil {
		return seen, err
	}
	reading.objects.Server, reading.objects.Namespace = version.GitVersion, reading.namespace
	if len(paths) > 0 {
		reading.objects.Inventory, err = load(cmd, d.cluster, paths)
	} else {
		err = reading.readInventory(cmd.Context())
	}
	if err != nil {
		return seen, err
	}
	if err := reading.readObjects(cmd.Context()); err != nil {
		return seen, err
	}
	return doctor.Read(reading.objects), nil
}

// readInventory reads the inventory in force, as far as that goes. That there is none yet is no trouble.
func (e *examiner) readInventory(ctx context.Context) error {
	inv, err := source.Accepted(ctx, e.client, e.namespace)
	e.objects.Inventory = inv
	if newer := (*inventory.NewerFormatError)(nil); errors.Is(err, source.ErrUnreadable) || errors.As(err, &newer) {
		e.objects.Unread = append(e.objects.Unread, "the inventory that is in force: plinth status says why") // a bundle quotes nothing of it
		return nil
	}
	return e.unlessForbidden("the inventory that is in force", err)
}

// unlessForbidden notes the objects that may not be read.
func (e *examiner) unlessForbidden(what string, err error) error {
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		e.objects.Unread = append(e.objects.Unread, what+": "+err.Error())
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (e *examiner) readObjects(ctx context.Context) error {
	core, apps, all := e.client.CoreV1(), e.client.AppsV1(), metav1.ListOptions{}
	objects := &e.objects
	for _, read := range []struct {
		what string
		list func() error
	}{
		{"Nodes", func() error { l, err := core.Nodes().List(ctx, all); objects.Nodes = itemsOf(l, err).Items; return err }},
		{"leases of kubelets", func() error { return e.readLeases(ctx, v1.NamespaceNodeLease) }},
		{"leases of cloud controller managers", func() error {
			if e.namespace == metav1.NamespaceSystem {
				return e.readLeases(ctx, metav1.NamespaceSystem)
			}
			return errors.Join(e.readLeases(ctx, metav1.NamespaceSystem), e.readLeases(ctx, e.namespace))
		}},
		{"DaemonSets", func() error {
			l, err := apps.DaemonSets("").List(ctx, all)
			objects.DaemonSets = itemsOf(l, err).Items
			return err
		}},
		{"Deployments", func() error {
			l, err := apps.Deployments("").List(ctx, all)
			objects.Deployments = itemsOf(l, err).Items
			return err
		}},
		{"static Pods", func() error {
			l, err := core.Pods(metav1.NamespaceSystem).List(ctx, all)
			objects.Pods = itemsOf(l, err).Items
			return err
		}},
		{"Services", func() error {
			l, err := core.Services("").List(ctx, all)
			objects.Services = itemsOf(l, err).Items
			return err
		}},
		{"ServiceCIDRs", func() error {
			l, err := e.client.NetworkingV1().ServiceCIDRs().List(ctx, all)
			objects.ServiceCIDRs = itemsOf(l, err).Items
			return err
		}},
		{"the namespace " + e.namespace, func() error {
			n, err := core.Namespaces().Get(ctx, e.namespace, metav1.GetOptions{})
			if err == nil {
				objects.Namespaces = []v1.Namespace{*n}
			}
			return err
		}},
		{"the settings of kube-proxy and of CNIs", func() error { return e.readConfigMaps(ctx) }},
		{"what other balancers and BGP speakers are told", func() error { return e.readCustom(ctx) }},
	} {
		if err := e.unlessForbidden(read.what, read.list()); err != nil {
			return err
		}
	}
	return nil
}

// itemsOf is a list that was answered, or else an empty one.
func itemsOf[L any](list *L, err error) *L {
	if err != nil || list == nil {
		return new(L)
	}
	return list
}

// readLeases reads those of a namespace. The clock of the API server is looked at with those of kubelets.
func (e *examiner) readLeases(ctx context.Context, namespace string) error {
	l, err := e.client.CoordinationV1().Leases(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	e.objects.Leases = append(e.objects.Leases, l.Items...)
	if at := e.date.Load(); at != 0 && e.objects.Now.IsZero() {
		e.objects.Now = time.Unix(at, 0)
	}
	return nil
}

func (e *examiner) readConfigMaps(ctx context.Context) (err error) {
	for _, at := range doctor.ConfigMaps(e.namespace) {
		cm, e2 := e.client.CoreV1().ConfigMaps(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		switch {
		case e2 == nil:
			e.objects.ConfigMaps = append(e.objects.ConfigMaps, *cm)
		case !apierrors.IsNotFound(e2):
			err = e2
		}
	}
	return err
}

// readCustom reads the objects of other programs' kinds that the cluster serves.
func (e *examiner) readCustom(ctx context.Context) error {
	server, err := apiServerOf(e.config)
	if err != nil {
		return err
	}
	kinds := doctor.CustomKinds()
	slices.SortFunc(kinds, func(a, b doctor.CustomKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	for _, kind := range kinds {
		resource, err := server.resource(importer.Kind{Group: kind.Group, Kind: kind.Kind})
		if err != nil {
			return err
		}
		if resource.Empty() {
			continue
		}
		list, err := server.client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err := e.unlessForbidden(kind.Kind+" of "+kind.Group, err); err != nil {
			return err
		}
		for _, item := range itemsOf(list, err).Items {
			e.objects.Custom = append(e.objects.Custom, item.Object)
		}
	}
	return nil
}
