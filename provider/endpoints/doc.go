// Package endpoints reads EndpointSlices the way kube-proxy does (KEP-1669).
package endpoints
