// Package nodes tests against a real API server, with the stock controllers,
// what Plinth makes of Nodes, volumes and inventories.
package nodes
