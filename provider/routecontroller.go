package provider

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	stockroute "k8s.io/cloud-provider/controllers/route"
)

// startRouteController has the stock route controller run while the inventory
// in force has a pod network. Its cluster CIDRs are the pod network's, or those
// of --cluster-cidr; without any the stock start would end the process.
func startRouteController(ctx context.Context, c *Cloud, s start) error {
	if !s.config.ComponentConfig.KubeCloudShared.ConfigureCloudRoutes {
		return nil
	}
	given := s.config.ComponentConfig.KubeCloudShared.ClusterCIDR
	if _, err := parseCIDRs(given); err != nil {
		return fmt.Errorf("--cluster-cidr: %w", err)
	}
	r := &routeController{cloud: c, start: s, stop: func() {}}
	go c.inForce.OnChange(ctx, func() { r.adapt(ctx) })
	return nil
}

// routeController runs the stock controller, anew each time that the cluster
// CIDRs change.
type routeController struct {
	cloud        *Cloud
	start        start
	clusterCIDRs string // that it runs with; empty: it does not run
	stop         func()
}

func (r *routeController) adapt(ctx context.Context) {
	want := r.cloud.clusterCIDRs(r.start.config.ComponentConfig.KubeCloudShared.ClusterCIDR)
	if want == r.clusterCIDRs {
		return
	}
	r.stop()
	r.clusterCIDRs, r.stop = "", func() {}
	if want == "" {
		return
	}
	inner, cancel := context.WithCancel(ctx)
	if err := r.run(inner, want); err != nil {
		cancel()
		r.cloud.log.Error("cannot look after the routes of pods", "clusterCIDRs", want, "err", err)
		return
	}
	r.clusterCIDRs, r.stop = want, cancel
	r.cloud.log.Info("looking after the routes of pods", "clusterCIDRs", want)
}

func (r *routeController) run(ctx context.Context, clusterCIDRs string) error {
	cidrs, err := parseCIDRs(clusterCIDRs)
	if err != nil {
		return err
	}
	s, c := r.start, r.cloud
	shared := s.config.ComponentConfig.KubeCloudShared
	pending := &pendingRoutes{routes: routes{inventory: c.inventory, nodes: c.nodes}}
	stock, err := stockroute.New(pending, s.config.ClientBuilder.ClientOrDie(s.client),
		fabricInformer{c.informers.Core().V1().Nodes(), pending}, shared.ClusterName, cidrs)
	if err != nil {
		return err
	}
	go stock.Run(ctx, shared.RouteReconciliationPeriod.Duration, s.context.ControllerManagerMetrics)
	return nil
}

// clusterCIDRs returns what the route controller is responsible for, comma
// separated; empty where a CNI makes the routes.
func (c *Cloud) clusterCIDRs(given string) string {
	if _, ok := c.Routes(); !ok {
		return ""
	}
	if given != "" {
		return given
	}
	var out []string
	for _, p := range c.inventory().PodNetwork.CIDRs {
		out = append(out, p.String())
	}
	return strings.Join(out, ",")
}

func parseCIDRs(list string) ([]*net.IPNet, error) {
	var out []*net.IPNet
	for s := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(s) == "" {
			continue
		}
		_, cidr, err := net.ParseCIDR(strings.TrimSpace(s))
		if err != nil {
			return nil, err
		}
		out = append(out, cidr)
	}
	sameFamily := func(a, b *net.IPNet) bool { return (a.IP.To4() == nil) == (b.IP.To4() == nil) }
	if len(out) > 2 || len(out) == 2 && sameFamily(out[0], out[1]) {
		return nil, fmt.Errorf("%s: at most one CIDR per family", list)
	}
	return slices.Clip(out), nil
}

// fabricInformer has the route controller, in its watch-based mode, look again
// when an agent changes its word: of itself it looks only at pod CIDRs and
// addresses, and after that for hours at nothing.
type fabricInformer struct {
	coreinformers.NodeInformer
	pending *pendingRoutes
}

// Lister lists the Nodes that the route controller has something to do for.
func (f fabricInformer) Lister() corelisters.NodeLister {
	return pendingNodes{f.NodeInformer.Lister(), f.pending}
}

// Informer returns the shared informer of Nodes.
func (f fabricInformer) Informer() cache.SharedIndexInformer {
	return fabricIndexInformer{f.NodeInformer.Informer()}
}

type fabricIndexInformer struct{ cache.SharedIndexInformer }

// AddEventHandler shows a change of the agent's word as an update from a Node
// to itself, which the route controller takes for a resync.
func (f fabricIndexInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return f.SharedIndexInformer.AddEventHandler(fabricHandler{handler})
}

type fabricHandler struct{ cache.ResourceEventHandler }

// OnUpdate passes an update on.
func (h fabricHandler) OnUpdate(was, is any) {
	old, node := was.(*v1.Node), is.(*v1.Node)
	h.ResourceEventHandler.OnUpdate(was, is)
	if said, says := fabric(old), fabric(node); said.Status != says.Status || said.Reason != says.Reason {
		h.ResourceEventHandler.OnUpdate(is, is)
	}
}
