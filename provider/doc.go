// Package provider assembles Plinth's controllers, and is the k8s.io/cloud-provider.Interface that
// those of k8s.io/cloud-provider ask.
//
// A [Cloud] owns what the controllers share and nothing of what they decide: the inventory in
// force, the index of Nodes, clients, informers, and who records Events. The framework calls New
// in every process, and on the leader Initialize, SetInformers and the constructors of
// [Controllers], in this order; none of them may block. Each controller lives in a package of
// its own, gets what it uses and never the Cloud: VIPs in vip, Nodes in node, volumes in volume,
// what the stock controllers see and write in stock.
//
// Before a change: an answer of [Cloud] that is "no" deletes a Node, so where it does not know
// it answers with an error.
package provider
