// Package cluster tells what the API server says of Services, their endpoints and Nodes, as
// package preview takes it: what would become of VIPs in use depends on these.
package cluster
