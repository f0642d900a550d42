package stock

import (
	"context"
	"log/slog"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"
	genericcontrollermanager "k8s.io/controller-manager/app"

	"plinth.dev/plinth/inventory/source"
)

// Controllers starts the stock controllers of Nodes and routes.
type Controllers struct {
	Cloud      cloudprovider.Interface // whom they ask
	InForce    *source.InForce         // they start when one is
	Nodes      coreinformers.NodeInformer
	Initialize initializer                 // in place of the node controller's own write
	Current    func(context.Context) error // an error unless the inventory in force is the one that is stored
	Log        *slog.Logger
}

// Start is the argument of the framework to a controller that it starts.
type Start struct {
	Config  *config.CompletedConfig
	Client  string // name of its client
	Context genericcontrollermanager.ControllerContext
}

func (s Start) client() kubernetes.Interface { return s.Config.ClientBuilder.ClientOrDie(s.Client) }
