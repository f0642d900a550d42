package kubelet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Proxy is how the machine's kube-proxy is run.
type Proxy struct {
	Program     string // empty: none
	Kubeconfig  string
	Programs    string // folder of programs that it finds before others, where that is there when it starts
	ClusterCIDR string
	Mode        string        // nftables or iptables
	MinSync     time.Duration // between two syncs, at least; zero: its default
	LogDir      string
}

// superviseProxy runs kube-proxy as a DaemonSet's pod would: once the Node has an
// address, and again whenever it ends. It ends by itself when those addresses change.
func (k *kubelet) superviseProxy(ctx context.Context) {
	if k.Proxy.Program == "" {
		return
	}
	// The kernel sends the death signal of runProxy when the thread that started
	// kube-proxy ends, so that must not be just any thread.
	runtime.LockOSThread()
	for ctx.Err() == nil {
		if k.hasAddress() {
			if err := k.runProxy(ctx); err != nil {
				k.Log.Error("kube-proxy has ended", "err", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (k *kubelet) hasAddress() bool {
	n := k.node()
	if n == nil {
		return false
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return true
		}
	}
	return false
}

// runProxy returns when kube-proxy has ended. It ends with this process, since the
// next one starts another.
func (k *kubelet) runProxy(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(k.Proxy.LogDir, "kube-proxy-"+k.Node+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	flags := []string{
		"--kubeconfig=" + k.Proxy.Kubeconfig, "--hostname-override=" + k.Node,
		"--proxy-mode=" + k.Proxy.Mode, "--cluster-cidr=" + strings.TrimSuffix(k.Proxy.ClusterCIDR, ","),
		"--healthz-bind-address=0.0.0.0:10256", "--metrics-bind-address=127.0.0.1:10249",
		// The limits of connection tracking belong to the whole kernel, which is not the lab's.
		"--conntrack-max-per-core=0", "--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
	}
	if k.Proxy.MinSync > 0 { // these are of mode nftables, too
		most := max(k.Proxy.MinSync, 30*time.Second) // its default, and it refuses less than the least
		flags = append(flags, "--iptables-min-sync-period="+k.Proxy.MinSync.String(), "--iptables-sync-period="+most.String())
	}
	cmd := exec.Command(k.Proxy.Program, flags...)
	cmd.Stdout, cmd.Stderr = log, log
	if _, err := os.Stat(k.Proxy.Programs); err == nil {
		cmd.Env = append(os.Environ(), "PATH="+k.Proxy.Programs+":"+os.Getenv("PATH"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	k.Log.Info("kube-proxy runs", "pid", cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
