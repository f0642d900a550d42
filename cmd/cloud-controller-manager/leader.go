package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"

	"plinth.dev/plinth/inventory/source"
	"plinth.dev/plinth/provider/installation"
	"plinth.dev/plinth/provider/leader"
)

// lead makes a process that is elected write only while it surely leads, log the holder that it waits for before that, and hand over when
// it is asked to end.
func lead(completed *config.CompletedConfig, restart func(), log *slog.Logger) {
	if !completed.ComponentConfig.Generic.LeaderElection.LeaderElect {
		return
	}
	fence := enclose(completed, restart)
	self := &leader.Identity{EventRecorder: completed.EventRecorder}
	completed.EventRecorder = self
	lease := completed.ComponentConfig.Generic.LeaderElection
	waiting := installation.Waiting{
		Client: completed.Client, Namespace: lease.ResourceNamespace, Name: lease.ResourceName, Program: source.Program(), Leads: func() bool { return self.Name() != "" }, Log: log,
	}
	go waiting.Report(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-asked
		klog.FlushAndExit(klog.ExitFlushTimeout, handOver(completed, fence, self))
	}()
}

// handOver returns the exit code of a process that has given up its lease, or has none. It
// has as long as the lease is sure to be its own without being renewed.
func handOver(completed *config.CompletedConfig, fence *leader.SelfFence, self *leader.Identity) int {
	lease := completed.ComponentConfig.Generic.LeaderElection
	ctx, cancel := context.WithTimeout(context.Background(), lease.RenewDeadline.Duration)
	defer cancel()
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: lease.ResourceNamespace, Name: lease.ResourceName},
		Client:    completed.Client.CoordinationV1(), // made before the fence
	}
	klog.InfoS("Asked to end: handing over", "lease", lock.Describe())
	if err := leader.HandOver(ctx, fence, lock, self.Name); err != nil {
		klog.ErrorS(err, "Cannot hand over; the next leader waits until the lease expires")
		return 1
	}
	return 0
}

// enclose puts a fence around every client that controllers write with.
func enclose(completed *config.CompletedConfig, restart func()) *leader.SelfFence {
	fence := leader.NewSelfFence(stallLimit(completed), restart)
	fence.Enclose(completed.Kubeconfig)
	if completed.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		// The builder has a copy of the configuration, made before anybody could ask
		// for a fence around it.
		accounts := rest.AnonymousClientConfig(completed.Kubeconfig)
		fence.Enclose(accounts)
		completed.ClientBuilder = clientbuilder.NewDynamicClientBuilder(accounts, completed.Client.CoreV1(), metav1.NamespaceSystem)
	}
	return fence
}

// stallLimit is for how long a leader may have been stopped and still be sure to lead. It
// gives up a renew deadline after the retry period that follows its last renewal (client-go,
// leaderelection.go, renew), and others take over a lease duration after that renewal.
func stallLimit(c *config.CompletedConfig) time.Duration {
	lease := c.ComponentConfig.Generic.LeaderElection
	return max(lease.LeaseDuration.Duration-lease.RenewDeadline.Duration-lease.RetryPeriod.Duration, leastStall)
}

// leastStall is the least limit, where the flags leave no more: a process that was not stopped
// may be without a processor for a moment.
const leastStall = time.Second
