// Package provider answers Kubernetes as a cloud: instances, zones, routes; it keeps the
// labels, taints and pod CIDRs of Nodes, and assembles the controllers. VIPs are given by
// package vip, and volumes labelled by package volume.
//
// A [Cloud] is what the controllers of k8s.io/cloud-provider ask. It knows
// nothing but the inventory in force and what the API server says. Questions
// about Nodes, zones, routes and volumes are answered from memory; a "no" that
// would delete a Node is confirmed at the API server first. Where it does not know, it
// answers with an error, because "no" deletes a Node.
package provider
