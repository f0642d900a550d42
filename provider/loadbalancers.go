package provider

import (
	"context"

	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
)

// LoadBalancer answers the stock service controller, which Plinth's own programs do not
// run: it is for others, that link this provider with it.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c.vips.Stock(), !c.options.ClassOnly
}

// Remember has this process remember who holds which VIP until ctx ends, whether it leads
// or not; see [vip.Controller.Remember].
func (c *Cloud) Remember(ctx context.Context, client kubernetes.Interface) {
	c.vips.Remember(ctx, client)
}

// startLoadBalancer starts what gives Services their VIPs, in place of the stock service
// controller.
func startLoadBalancer(ctx context.Context, c *Cloud, s start) error {
	return c.vips.Start(ctx, int(s.config.ComponentConfig.ServiceController.ConcurrentServiceSyncs))
}
