// Package endpoints reads EndpointSlices (KEP-1669), and what Services show, the way kube-proxy does.
package endpoints
