// Command plinth-cloud-controller-manager is the standard cloud controller
// manager of Kubernetes with the provider plinth.
package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version as a metric
	"k8s.io/klog/v2"

	"plinth.dev/plinth/buildinfo"
	"plinth.dev/plinth/memory"
	"plinth.dev/plinth/provider"
)

// gcPercent is by how much the heap grows until garbage is collected: where a control
// plane is small, memory is dearer than a little time.
const gcPercent = 50

func main() {
	os.Exit(run())
}

func run() int {
	standard, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.ErrorS(err, "cannot make the standard options")
		return 1
	}
	suit(standard)

	legacyregistry.RawMustRegister(buildinfo.Metric{})
	debug.SetGCPercent(gcPercent)
	go memory.Trim(context.Background())

	var own provider.Options
	flags := cliflag.NamedFlagSets{}
	own.AddFlags(flags.FlagSet(provider.Name))

	cloud := func(completed *config.CompletedConfig) cloudprovider.Interface {
		own.Log = slog.New(logr.ToSlogHandler(klog.Background()))
		own.Restart = func() { klog.FlushAndExit(klog.ExitFlushTimeout, 1) }
		if lease := completed.ComponentConfig.Generic.LeaderElection; lease.LeaderElect {
			own.Lease, own.LeaseIn = lease.ResourceName, lease.ResourceNamespace
		}
		lead(completed, own.Restart, own.Log)
		serveWebhook(completed, own)
		plinth := provider.New(own)
		plinth.Remember(context.Background(), completed.Client)
		return plinth
	}
	command := app.NewCloudControllerManagerCommand(standard, cloud, provider.Controllers(), provider.ControllerAliases(), flags, wait.NeverStop)
	command.Use = "plinth-cloud-controller-manager"
	awaitServer(command, standard)
	command.AddCommand(newValidateCommand())
	answerVersion(command)
	return cli.Run(command)
}

// suit sets the defaults that suit a datacenter: the stock ones allow 20
// requests a second and one Node, Service or status at a time.
func suit(opts *options.CloudControllerManagerOptions) {
	opts.KubeCloudShared.CloudProvider.Name = provider.Name
	opts.Generic.ClientConnection.QPS = 2000
	opts.Generic.ClientConnection.Burst = 4000
	opts.NodeController.ConcurrentNodeSyncs = 16
	opts.NodeController.ConcurrentNodeStatusUpdates = 8
	opts.NodeLifecycleController.ConcurrentNodeLifecycleSyncs = 8
	opts.ServiceController.ConcurrentServiceSyncs = 16
}
