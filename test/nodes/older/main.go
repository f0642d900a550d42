// Command older is a cloud controller manager of somebody else's that knows no InstancesV2: it links Plinth's provider with the
// stock node controllers, and these ask Instances and Zones.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"

	"plinth.dev/plinth/provider"
)

// olderCloud is a cloud as it was before InstancesV2.
type olderCloud struct{ *provider.Cloud }

// InstancesV2 is not there.
func (olderCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func main() {
	standard, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		panic(err)
	}
	standard.KubeCloudShared.CloudProvider.Name = provider.Name
	cloud := func(*config.CompletedConfig) cloudprovider.Interface {
		return olderCloud{provider.New(provider.Options{Namespace: "kube-system"})}
	}
	command := app.NewCloudControllerManagerCommand(standard, cloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}
