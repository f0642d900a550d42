// Command lab-kubelet plays the kubelet of one machine of the lab.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"plinth.dev/plinth/test/lab/kubelet"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lab-kubelet:", err)
		os.Exit(1)
	}
}

func run() error {
	var c kubelet.Config
	flag.StringVar(&c.Node, "node", "", "name of the Node")
	flag.StringVar(&c.Netns, "netns", "", "network namespace of the machine")
	flag.StringVar(&c.SystemUUID, "system-uuid", "", "UUID of the machine's firmware")
	flag.StringVar(&c.Version, "kubernetes", "", "version of Kubernetes that the Node shows")
	flag.StringVar(&c.CloudProvider, "cloud-provider", "external", "external: register the Node with the taint uninitialized")
	flag.StringVar(&c.NodeIP, "node-ip", "", "addresses that the cloud provider must know too")
	flag.StringVar(&c.Proxy.Program, "kube-proxy", "", "kube-proxy to run; empty: none")
	flag.StringVar(&c.Proxy.Kubeconfig, "kube-proxy-kubeconfig", "", "its kubeconfig")
	flag.StringVar(&c.Proxy.ClusterCIDR, "cluster-cidr", "", "its pod networks")
	flag.StringVar(&c.Proxy.Programs, "kube-proxy-programs", "", "folder of programs that it finds before others, where there is such a folder when it starts")
	flag.StringVar(&c.Proxy.Mode, "kube-proxy-mode", "nftables", "its mode: nftables or iptables")
	flag.DurationVar(&c.Proxy.MinSync, "kube-proxy-min-sync", 0, "its least time between two syncs; 0: its default")
	flag.StringVar(&c.Proxy.LogDir, "log-dir", "", "folder of its log")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of this kubelet")
	podCIDRs := flag.String("pod-cidrs", "", "comma list; empty: those of the Node")
	flag.Parse()
	for _, s := range strings.FieldsFunc(*podCIDRs, func(r rune) bool { return r == ',' }) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return fmt.Errorf("--pod-cidrs: %w", err)
		}
		c.PodCIDRs = append(c.PodCIDRs, p)
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	rest.QPS, rest.Burst = 100, 200
	if c.Kube, err = kubernetes.NewForConfig(rest); err != nil {
		return err
	}
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return kubelet.Run(ctx, c)
}
