package provider

import (
	"context"
	"maps"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"

	"plinth.dev/plinth/provider/stock"
	"plinth.dev/plinth/provider/volume"
)

// Names of the controllers that are Plinth's own, for --controllers.
const (
	nodeControllerName   = "plinth-node-controller"
	volumeControllerName = "plinth-volume-controller"
	orphanControllerName = "plinth-orphan-controller"
)

// Controllers returns the stock controllers for Nodes and routes, started in Plinth's own
// way, and Plinth's. One of them is in the place of the stock service controller.
func Controllers() map[string]app.ControllerInitFuncConstructor {
	all := maps.Clone(app.DefaultInitFuncConstructors)
	for name, start := range map[string]starter{
		names.CloudNodeController:          func(ctx context.Context, c *Cloud, s stock.Start) error { return c.stock.StartNode(ctx, s) },
		names.CloudNodeLifecycleController: func(ctx context.Context, c *Cloud, s stock.Start) error { return c.stock.StartLifecycle(ctx, s) },
		names.NodeRouteController:          func(ctx context.Context, c *Cloud, s stock.Start) error { return c.stock.StartRoute(ctx, s) },
		nodeControllerName:                 startNode,
		volumeControllerName:               startVolume,
		orphanControllerName:               func(ctx context.Context, c *Cloud, _ stock.Start) error { return c.nodes.StartUnmatched(ctx) },
		names.ServiceLBController:          startLoadBalancer,
	} {
		all[name] = app.ControllerInitFuncConstructor{
			InitContext: all[name].InitContext, // the client's name, for stock controllers
			Constructor: start.constructor,
		}
	}
	return all
}

// ControllerAliases returns former names of controllers, by which --controllers knows them,
// too.
func ControllerAliases() map[string]string {
	all := maps.Clone(names.CCMControllerAliases())
	all["plinth-loadbalancer-controller"] = names.ServiceLBController
	return all
}

// starter starts a controller on the leader. It must not block.
type starter func(ctx context.Context, c *Cloud, s stock.Start) error

func (f starter) constructor(init app.ControllerInitContext, config *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
	return func(ctx context.Context, context genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		err := f(ctx, cloud.(*Cloud), stock.Start{Config: config, Client: init.ClientName, Context: context})
		return nil, err == nil, err
	}
}

func startNode(ctx context.Context, c *Cloud, s stock.Start) error {
	return c.nodes.Start(ctx, int(s.Config.ComponentConfig.NodeController.ConcurrentNodeSyncs))
}

func startVolume(ctx context.Context, c *Cloud, _ stock.Start) error {
	places := volume.Places{Nodes: c.nodeLister(), MachineOf: c.index.MachineOf}
	controller := &volume.Controller{Places: places, InForce: &c.inForce, Client: c.client, Log: c.log}
	return controller.Start(ctx, c.informers)
}

// startLoadBalancer starts the controller that gives Services their VIPs, in place of the stock service
// controller.
func startLoadBalancer(ctx context.Context, c *Cloud, s stock.Start) error {
	return c.vips.Start(ctx, int(s.Config.ComponentConfig.ServiceController.ConcurrentServiceSyncs))
}
