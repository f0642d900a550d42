// Package endpoints reads EndpointSlices (KEP-1669), and the addresses in the statuses of Services, the way kube-proxy does.
package endpoints
