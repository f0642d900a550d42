package provider

import (
	"log/slog"

	"github.com/spf13/pflag"

	"plinth.dev/plinth/lb"
)

// Options are the options of a Cloud.
type Options struct {
	Namespace string // of Plinth's ConfigMaps and Secrets
	Inventory string // a file or a folder; empty: the ConfigMaps labelled plinth.dev/inventory
	ClassOnly bool   // serve Services of Plinth's class and none without a class
	Lease     string // name of the lease that the leader holds; empty: the default of --leader-elect-resource-name
	LeaseIn   string // namespace of that lease; empty: no leader is elected
	StateDir  string // where it is written down who holds which VIP, for after a restore of etcd; empty: nowhere
	Webhook   string // host:port where edits of the inventory are judged before they are stored; empty: nowhere
	Log       *slog.Logger
	Restart   func() // ends this process, so that another starts with nothing remembered; nil: exits with code 1
}

// AddFlags adds the flags that are Plinth's own, with their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Inventory, "inventory", "",
		"File or folder with the inventory. Default: the ConfigMaps labelled plinth.dev/inventory in --namespace.")
	flags.StringVar(&o.Namespace, "namespace", "kube-system",
		"Namespace of the inventory, of what was accepted of it, and of the Secrets that it names.")
	flags.BoolVar(&o.ClassOnly, "load-balancer-class-only", false,
		"Serve LoadBalancer Services of class "+lb.LoadBalancerClass+" alone, and leave those without a class to another balancer.")
	flags.StringVar(&o.StateDir, "state-dir", "",
		"Folder that survives a restart of the container, to write down which VIPs are held: after etcd was restored from a backup, no other place knows. Default: nowhere.")
	flags.StringVar(&o.Webhook, "inventory-webhook-address", "",
		"Address, such as :10269, where the validating webhook for the inventory's ConfigMaps is served, by every replica. Default: nowhere.")
}
