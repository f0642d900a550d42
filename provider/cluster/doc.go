// Package cluster reads Services, their endpoints and Nodes from the API server into the value that
// package preview takes: the fate of VIPs in use depends on these.
package cluster
