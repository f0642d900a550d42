// Package components finds the programs of a Kubernetes control plane, of its machines
// and of its own tests, where KUBEBUILDER_ASSETS points to or in a cache, and builds those
// that are in neither.
package components
