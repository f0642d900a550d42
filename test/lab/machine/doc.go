// Package machine is the first process (PID 1) of a real machine of a lab: one that
// runs the kubelet, containerd, kube-proxy and containers, where the lab's own
// kubelet runs servers in network namespaces.
//
// A machine shares the kernel and the programs of the host. It has namespaces of its
// own for mounts, process IDs, host name, IPC and cgroups besides its network, and
// its disk is a folder of the lab. When its first process ends, all that runs on it
// ends at once: a power cut is a kill of that one process.
package machine
