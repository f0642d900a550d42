package node

import (
	"log/slog"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/event"
	"plinth.dev/plinth/provider/nodeindex"
	"plinth.dev/plinth/provider/queue"
)

// Controller keeps labels, taints, provider ID and pod CIDRs of every Node as the inventory
// wants them, for as long as the Node lives.
//
// It uses these verbs of the API:
//
//	nodes       get list watch patch
//	events      create patch
//	configmaps  create patch, of the name plinth-inventory-status in Plinth's namespace
type Controller struct {
	options Options
	cluster Cluster
	log     *slog.Logger
	nodes   corelisters.NodeLister
	queue   *queue.Queue
	wanted  wantedTaints
}

// Options are the options of the controller: its sources and its log.
type Options struct {
	Namespace string // of Plinth's ConfigMaps
	InForce   *source.InForce
	Index     *nodeindex.Index
	Log       *slog.Logger
}

// Cluster is the connection to the API server: its client, its informer of Nodes and its sinks of Events and reports.
type Cluster struct {
	Client   kubernetes.Interface
	Nodes    coreinformers.NodeInformer
	Recorder record.EventRecorder
	Reports  *event.Reports
}

// Use sets the connection to the API server, before anything is started.
func (c *Controller) Use(cluster Cluster) { c.cluster, c.nodes = cluster, cluster.Nodes.Lister() }
