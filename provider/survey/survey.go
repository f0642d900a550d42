package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/claim"
	"plinth.dev/plinth/provider/cluster"
	"plinth.dev/plinth/provider/nodeindex"
)

// Objects of one page: as many as make some megabytes, so that an API server answers in a few
// hundred milliseconds and a cluster of 1,600 machines in 21 requests.
const (
	nodesOfPage    = 1000 // 15 kB each
	podsOfPage     = 1000
	servicesOfPage = 3000
	claimsOfPage   = 3000
	slicesOfPage   = 3000
)

// Labels that the pods of Plinth are known by.
const (
	labelName      = "app.kubernetes.io/name"
	nameController = "plinth-cloud-controller-manager"
	nameAgent      = "plinth-agent"
)

// Reader reads a cluster.
type Reader struct {
	Client    kubernetes.Interface
	Namespace string // Plinth's
}

// New returns a Reader. It asks for protobuf, which takes a third of the time that JSON takes, and
// does not pace itself: its requests are few.
func New(config *rest.Config, namespace string) (Reader, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return Reader{Client: client, Namespace: namespace}, err
}

// Read asks the API server for all that a summary needs, side by side. It uses these verbs of the
// API, and says what it may not read where ServiceCIDRs or the last three of these are refused:
//
//	                  configmaps             get list   in Plinth's namespace
//	                  nodes, services        list
//	networking.k8s.io ipaddresses            list
//	networking.k8s.io servicecidrs           list
//	discovery.k8s.io  endpointslices         list
//	                  pods                   list       in Plinth's namespace
//	coordination.k8s.io leases               get        in Plinth's namespace
//
// Who may list leases and configmaps in all namespaces is told, too, what keeps a new controller from acting.
func (r Reader) Read(ctx context.Context) (diagnose.Observed, error) {
	raw, err := r.fetch(ctx)
	if err != nil {
		return diagnose.Observed{}, err
	}
	return raw.observed(), nil
}

// What is not known without EndpointSlices, and without the lease.
const (
	notPlanned = "which VIPs nobody announces, and whether pools have addresses of the cluster"
	notLed     = "whether a controller leads"
	notInside  = "whether pools have addresses that cluster IPs are given from"
)

// fetched is the answer of the API server to one round of requests.
type fetched struct {
	inventory *inventory.Inventory
	spoilt    string            // why it is but what can be read of what is stored; empty: it is the whole
	newer     bool              // for a newer version has stored it
	edit      map[string]string // data of the inventory's status
	written   string            // what stands in the ConfigMaps that people write
	nodes     []*v1.Node
	services  []*v1.Service
	claims    []*networkingv1.IPAddress
	slices    []*discoveryv1.EndpointSlice
	cidrs     []*networkingv1.ServiceCIDR
	pods      []*v1.Pod
	leader    *diagnose.Leader
	forbidden map[string]error // what may not be read, and why
}

// fetch makes the lists side by side. That no inventory is in force is no error: it is the first
// thing that somebody wants to know the cause of.
func (r Reader) fetch(ctx context.Context) (fetched, error) {
	raw, core := fetched{forbidden: map[string]error{}}, r.Client.CoreV1()
	byName := fmt.Sprintf("%s in (%s,%s)", labelName, nameAgent, nameController)
	var errPods, errSlices, errLeader, errCIDRs error
	err := sideBySide(
		func() (err error) {
			raw.inventory, err = source.Accepted(ctx, r.Client, r.Namespace)
			if errors.Is(err, source.ErrUnreadable) { // a finding, and no reason to say nothing else
				raw.spoilt, err = err.Error()+"; "+source.Advice(r.Namespace), nil
			}
			if newer := (*inventory.NewerFormatError)(nil); errors.As(err, &newer) {
				raw.spoilt, raw.newer, err = err.Error(), true, nil
			}
			return err
		},
		func() error {
			cm, err := core.ConfigMaps(r.Namespace).Get(ctx, source.StatusName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			raw.edit = cm.Data
			return err
		},
		func() error {
			edit, err := source.ConfigMaps{Client: r.Client, Namespace: r.Namespace}.Written(ctx)
			raw.written = edit.Written()
			return err
		},
		func() (err error) {
			raw.nodes, err = all[*v1.Node](ctx, nodesOfPage, metav1.ListOptions{}, list(core.Nodes().List))
			return err
		},
		func() (err error) {
			raw.services, err = all[*v1.Service](ctx, servicesOfPage, metav1.ListOptions{}, list(core.Services("").List))
			return err
		},
		func() (err error) {
			raw.claims, err = all[*networkingv1.IPAddress](ctx, claimsOfPage, metav1.ListOptions{LabelSelector: claim.Selector}, list(r.Client.NetworkingV1().IPAddresses().List))
			return err
		},
		func() error {
			raw.slices, errSlices = all[*discoveryv1.EndpointSlice](ctx, slicesOfPage, metav1.ListOptions{}, list(r.Client.DiscoveryV1().EndpointSlices("").List))
			return unlessForbidden(errSlices)
		},
		func() error {
			raw.cidrs, errCIDRs = all[*networkingv1.ServiceCIDR](ctx, servicesOfPage, metav1.ListOptions{}, list(r.Client.NetworkingV1().ServiceCIDRs().List))
			if apierrors.IsNotFound(errCIDRs) { // an API server that has none
				return nil
			}
			return unlessForbidden(errCIDRs)
		},
		func() error {
			raw.pods, errPods = all[*v1.Pod](ctx, podsOfPage, metav1.ListOptions{LabelSelector: byName}, list(core.Pods(r.Namespace).List))
			return unlessForbidden(errPods)
		},
		func() error {
			raw.leader, errLeader = r.leader(ctx)
			return unlessForbidden(errLeader)
		},
	)
	raw.note("whether the controller's pods run, and those of agents", errPods)
	raw.note(notPlanned, errSlices)
	raw.note(notLed, errLeader)
	raw.note(notInside, errCIDRs)
	return raw, err
}

func (raw *fetched) note(what string, err error) {
	if apierrors.IsForbidden(err) {
		raw.forbidden[what] = err
	}
}

func unlessForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// sideBySide runs all, and waits for the last.
func sideBySide(all ...func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, one := range all {
		wg.Go(func() { errs[i] = one() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// list turns the list method of a typed client into the function that a pager calls.
func list[L runtime.Object](of func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of(ctx, o) }
}

// all lists every object, in pages.
func all[T runtime.Object](ctx context.Context, page int64, o metav1.ListOptions, of pager.ListPageFunc) (out []T, err error) {
	p := pager.New(of)
	p.PageSize = page
	err = p.EachListItem(ctx, o, func(obj runtime.Object) error {
		out = append(out, obj.(T))
		return nil
	})
	return out, err
}

// observed assembles the observation from the answers.
func (raw fetched) observed() diagnose.Observed {
	seen := diagnose.Observed{Inventory: raw.inventory, Unreadable: raw.spoilt, NewerFormat: raw.newer, Edit: editOf(raw.edit, raw.written)}
	identities := nodeindex.Identities(raw.nodes)
	for i, n := range raw.nodes {
		seen.Nodes = append(seen.Nodes, nodeOf(n))
		seen.Nodes[i].NodeIdentity = identities[i]
	}
	for _, s := range raw.services {
		if s.Spec.Type == v1.ServiceTypeLoadBalancer { // others may have externalIPs
			seen.Services = append(seen.Services, serviceOf(s))
		}
	}
	for _, c := range raw.claims {
		if o, _ := claim.Read(c); o.Addr.IsValid() {
			seen.Claimed = append(seen.Claimed, o.Addr)
		}
	}
	for _, pod := range raw.pods {
		if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
			continue // another one is in its place, or will be
		}
		if pod.Labels[labelName] == nameAgent {
			seen.Agents = append(seen.Agents, podOf(pod))
		} else {
			seen.Controllers = append(seen.Controllers, podOf(pod))
		}
	}
	sortAll(&seen)
	for what, err := range raw.forbidden {
		seen.NotKnown = append(seen.NotKnown, what+": "+err.Error())
	}
	slices.Sort(seen.NotKnown)
	if _, not := raw.forbidden[notLed]; !not {
		seen.Leader = raw.leader
	}
	raw.plan(&seen)
	return seen
}

// plan assembles the cluster that VIPs are planned by, unless something of it is not known.
func (raw fetched) plan(seen *diagnose.Observed) {
	if _, not := raw.forbidden[notPlanned]; not {
		return
	}
	var err error
	if seen.Cluster, err = cluster.Of(raw.claims, raw.nodes, raw.services, raw.slices, raw.cidrs...); err != nil {
		seen.NotKnown = append(seen.NotKnown, notPlanned+": "+err.Error())
	}
	seen.Planned = err == nil
}

// sortAll sorts the lists that an API server returns in its own order.
func sortAll(seen *diagnose.Observed) {
	slices.SortFunc(seen.Nodes, func(a, b diagnose.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(seen.Services, func(a, b diagnose.Service) int { return a.Key.Compare(b.Key) })
	byName := func(a, b diagnose.Pod) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(seen.Agents, byName)
	slices.SortFunc(seen.Controllers, byName)
}

// editOf reads the inventory's status, beside what is written. A controller of an older version does not say what it
// has read.
func editOf(data map[string]string, written string) diagnose.Edit {
	read, says := data[source.KeyRead]
	_, digest, _ := strings.Cut(data[source.KeyRefused], " ")
	return diagnose.Edit{
		Ready: data[source.KeyReady] == "true", Generation: data[source.KeyGeneration], Problems: linesOf(data[source.KeyProblems]), Store: data[source.KeyStore], Refused: digest, Trial: trials(data[source.KeyTrial]),
		Unread:              says && read != written,
		NodesWithoutMachine: strings.Fields(data[source.KeyNodesWithoutMachine]), MachinesWithoutNode: strings.Fields(data[source.KeyMachinesWithoutNode]),
	}
}

// trials returns, for each Node, the routers whose new terms it tries.
func trials(text string) (out []string) {
	for _, line := range linesOf(text) {
		if node, routers, ok := strings.Cut(line, " "); ok {
			out = append(out, node+" with "+strings.ReplaceAll(routers, " ", ", "))
		}
	}
	return out
}

func linesOf(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}
