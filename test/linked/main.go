// Command linked is a cloud controller manager of somebody else's: it links Plinth's
// provider with the stock controllers as they are, the service controller among them.
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

// olderCloud is a cloud as it was before InstancesV2: the stock node controllers ask Instances and Zones.
type olderCloud struct{ *provider.Cloud }

// InstancesV2 is not there.
func (olderCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

func main() {
	standard, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		panic(err)
	}
	standard.KubeCloudShared.CloudProvider.Name = provider.Name
	flags := cliflag.NamedFlagSets{}
	older := flags.FlagSet("linked").Bool("without-instances-v2", false, "have the controllers ask as they did before InstancesV2")
	cloud := func(*config.CompletedConfig) cloudprovider.Interface {
		plinth := provider.New(provider.Options{Namespace: "kube-system"})
		if *older {
			return olderCloud{plinth}
		}
		return plinth
	}
	command := app.NewCloudControllerManagerCommand(standard, cloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), flags, wait.NeverStop)
	os.Exit(cli.Run(command))
}
