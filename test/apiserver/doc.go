// Package apiserver runs a real kube-apiserver on etcd, or on kine, for one test, and the
// stock kube-controller-manager and kube-scheduler where the test wants them.
//
// It needs no root and no namespace: everything listens on loopback, at ports
// that were free, and ends with the test. Where there are machines, routers and
// pods to run, use package lab.
package apiserver
