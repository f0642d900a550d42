// Command sample is the cloud controller manager of k8s.io/cloud-provider's own
// sample, with a cloud that knows every Node by its name and asks nobody. It is
// what Plinth is measured against.
package main

import (
	"context"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
)

func main() {
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		panic(err)
	}
	cloudprovider.RegisterCloudProvider("sample", func(io.Reader) (cloudprovider.Interface, error) { return cloud{}, nil })
	o.KubeCloudShared.CloudProvider.Name = "sample"
	start := func(*config.CompletedConfig) cloudprovider.Interface { return cloud{} }
	command := app.NewCloudControllerManagerCommand(o, start, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

type cloud struct{}

func (cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return cloud{}, true }
func (cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (cloud) ProviderName() string                                              { return "sample" }
func (cloud) HasClusterID() bool                                                { return true }

func (cloud) InstanceExists(context.Context, *v1.Node) (bool, error)   { return true, nil }
func (cloud) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }
func (cloud) InstanceMetadata(_ context.Context, n *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	return &cloudprovider.InstanceMetadata{
		ProviderID: "sample://" + n.Name, InstanceType: "m", Zone: "a", Region: "r",
		NodeAddresses:    []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeInternalIP, Address: "fd00::1"}},
		AdditionalLabels: map[string]string{"sample.example.com/rack": "r1"},
	}, nil
}
