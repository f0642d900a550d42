package stock

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
	"k8s.io/cloud-provider/names"

	"plinth.dev/plinth/inventory"
)

// StartRoute has the stock route controller run while the inventory in force has
// a pod network. Its cluster CIDRs are the pod network's, or those of
// --cluster-cidr; without any the stock start would end the process.
func (c *Controllers) StartRoute(ctx context.Context, start Start) error {
	if !start.Config.ComponentConfig.KubeCloudShared.ConfigureCloudRoutes {
		return nil
	}
	if _, err := parseCIDRs(start.Config.ComponentConfig.KubeCloudShared.ClusterCIDR); err != nil {
		return fmt.Errorf("--cluster-cidr: %w", err)
	}
	r := &routeController{Controllers: c, start: start, stop: func() {}}
	go c.InForce.OnChange(ctx, func() { r.adapt(ctx) })
	return nil
}

// routeController runs the stock controller, anew each time that the cluster
// CIDRs change.
type routeController struct {
	*Controllers
	start        Start
	clusterCIDRs string // that it runs with; empty: it does not run
	stop         func()
}

func (r *routeController) adapt(ctx context.Context) {
	want := clusterCIDRs(r.InForce.Get(), r.start.Config.ComponentConfig.KubeCloudShared.ClusterCIDR)
	if want == r.clusterCIDRs {
		return
	}
	r.stop()
	r.clusterCIDRs, r.stop = "", func() {}
	if want == "" {
		return
	}
	log := r.Log.With("controller", names.NodeRouteController, "clusterCIDRs", want)
	inner, cancel := context.WithCancel(ctx)
	if err := r.run(inner, want); err != nil {
		cancel()
		log.Error("cannot start the route controller", "err", err)
		return
	}
	r.clusterCIDRs, r.stop = want, cancel
	log.Info("started the route controller")
}

func (r *routeController) run(ctx context.Context, clusterCIDRs string) error {
	cidrs, err := parseCIDRs(clusterCIDRs)
	if err != nil {
		return err
	}
	shared := r.start.Config.ComponentConfig.KubeCloudShared
	pending := &pendingRoutes{Routes: Routes{InForce: r.InForce, Nodes: r.Nodes.Lister()}}
	stock, err := stockroute.New(pending, r.start.client(), fabricInformer{r.Nodes, pending}, shared.ClusterName, cidrs)
	if err != nil {
		return err
	}
	go stock.Run(ctx, shared.RouteReconciliationPeriod.Duration, r.start.Context.ControllerManagerMetrics)
	return nil
}

// clusterCIDRs returns the CIDRs that the route controller is responsible for, comma
// separated; empty where a CNI makes the routes.
func clusterCIDRs(inv *inventory.Inventory, given string) string {
	if !Offered(inv) {
		return ""
	}
	if given != "" {
		return given
	}
	return strings.Join(inventory.Strings(inv.PodNetwork.CIDRs), ",")
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

// fabricInformer makes the route controller, in its watch-based mode, look again
// when an agent changes its condition: of itself it looks only at pod CIDRs and
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

// AddEventHandler shows a change of the agent's condition as an update from a Node
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
