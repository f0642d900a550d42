// Package components finds the programs of a Kubernetes control plane, where
// KUBEBUILDER_ASSETS points to or in a cache, and builds those that are in neither.
package components
