package provider

import (
	"context"
	"maps"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/names"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
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
		names.CloudNodeController:          startCloudNodeController,
		names.CloudNodeLifecycleController: startLifecycleController,
		names.NodeRouteController:          startRouteController,
		nodeControllerName:                 startNodeController,
		volumeControllerName:               startVolumeController,
		orphanControllerName:               startOrphans,
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

// starter starts a controller on the leader. It must not wait for anything.
type starter func(ctx context.Context, c *Cloud, s start) error

// start is what a controller is started with.
type start struct {
	config  *config.CompletedConfig
	client  string // name of its client
	context genericcontrollermanager.ControllerContext
}

func (f starter) constructor(init app.ControllerInitContext, config *config.CompletedConfig, cloud cloudprovider.Interface) app.InitFunc {
	return func(ctx context.Context, context genericcontrollermanager.ControllerContext) (controller.Interface, bool, error) {
		err := f(ctx, cloud.(*Cloud), start{config: config, client: init.ClientName, context: context})
		return nil, err == nil, err
	}
}

// startCloudNodeController starts the stock controller that initialises Nodes
// and keeps their addresses. It looks at addresses every five minutes, and when
// a new inventory is in force.
func startCloudNodeController(ctx context.Context, c *Cloud, s start) error {
	settings := s.config.ComponentConfig
	stock, err := cloudnode.NewCloudNodeController(
		c.informers.Core().V1().Nodes(),
		thriftyClient{s.config.ClientBuilder.ClientOrDie(s.client), c},
		c,
		settings.NodeStatusUpdateFrequency.Duration,
		settings.NodeController.ConcurrentNodeSyncs,
		settings.NodeController.ConcurrentNodeStatusUpdates,
	)
	if err != nil {
		return err
	}
	go c.inForce.Once(ctx, func() { stock.RunWithContext(ctx, s.context.ControllerManagerMetrics) })
	go c.inForce.OnChange(ctx, func() {
		if err := stock.UpdateNodeStatus(ctx); err != nil {
			c.log.Error("cannot look at the addresses of nodes", "err", err)
		}
	})
	return nil
}
