// Package provider answers Kubernetes as a cloud: instances, load balancers,
// routes, labels, volumes.
//
// A [Cloud] is what the controllers of k8s.io/cloud-provider ask. It knows
// nothing but the inventory in force and what the API server says; it never
// waits for a network of its own, so every answer is a look into memory. Where
// it does not know, it answers with an error, because "no" deletes a Node.
package provider
