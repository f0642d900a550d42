package provider

import cloudprovider "k8s.io/cloud-provider"

// Instances is answered by InstancesV2.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 answers for machines.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones is answered by InstancesV2.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters names the cluster.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes answers for pod routes.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }
