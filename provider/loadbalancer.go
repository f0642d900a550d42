package provider

import cloudprovider "k8s.io/cloud-provider"

// LoadBalancer answers for Services of type LoadBalancer.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }
