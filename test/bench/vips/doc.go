// Package vips measures what Plinth takes from the creation of a Service to a route
// in a router's kernel, beside MetalLB in the same run.
//
// Everything is real: etcd and kube-apiserver, the controllers, the agent or the
// speaker, and BIRD as the router in a network namespace of its own. The benchmarks
// run as root in namespaces that nobody else is in, which are gone when they end.
// The contenders take turns on the same server, and what is printed are medians. Besides
// Plinth and MetalLB there may be an older controller manager of Plinth's and, where rates are
// measured, a program that makes Plinth's writes and decides nothing.
package vips
