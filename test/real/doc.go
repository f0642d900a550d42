// Package real holds Plinth against real machines: the shipped images and chart on
// kubelets, containerd and kube-proxy as people run them.
package real
