// Package upstream runs Kubernetes' own end-to-end tests of Services of type
// LoadBalancer against Plinth on real machines, and writes what came of each into
// docs/reference/conformance.md.
package upstream
