package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab/netns"
)

// startControlPlane starts etcd, the API server, the controller manager and the
// scheduler in a namespace of their own, and waits until they serve.
func (l *Lab) startControlPlane(ctx context.Context) error {
	l.say("control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler")
	if err := errors.Join(l.linkBinaries(), l.issueCertificates()); err != nil {
		return err
	}
	if _, err := l.start(controlHost, "etcd", components.Environment(), l.etcdCommand()...); err != nil {
		return err
	}
	if _, err := l.start(controlHost, "kube-apiserver", components.Environment(), l.apiServerCommand()...); err != nil {
		return err
	}
	if err := l.connect(); err != nil {
		return err
	}
	if err := Within(ctx, 2*time.Minute, l.apiReady); err != nil {
		return fmt.Errorf("kube-apiserver: %w\n%s", err, l.logTail("kube-apiserver"))
	}
	l.say("the API server is ready: KUBECONFIG=%s", l.Kubeconfig())
	return l.startControllers()
}

func (l *Lab) startControllers() error {
	_, err1 := l.start(controlHost, "kube-controller-manager", components.Environment(), l.controllerManagerCommand()...)
	_, err2 := l.start(controlHost, "kube-scheduler", components.Environment(),
		l.program("kube-scheduler"), "--kubeconfig="+l.pki("scheduler.conf"),
		"--authentication-kubeconfig="+l.pki("scheduler.conf"), "--authorization-kubeconfig="+l.pki("scheduler.conf"),
		"--leader-elect=false")
	return errors.Join(err1, err2)
}

func (l *Lab) apiReady(ctx context.Context) error {
	if _, ok := l.Process("kube-apiserver"); !ok {
		return errors.New("the process has ended")
	}
	if err := l.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	return nil
}

func (l *Lab) logTail(name string) string {
	return Process{Log: l.logFile(name)}.tail(15)
}

// Program is the file of a program of the control plane or of its machines.
func (l *Lab) Program(name string) string { return l.program(name) }

// program is a program of the control plane.
func (l *Lab) program(name string) string { return filepath.Join(l.binaries.folder, name) }

func (l *Lab) linkBinaries() error {
	for name, file := range l.binaries.found {
		if err := os.Symlink(file, l.program(name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// issueCertificates makes an authority, a certificate for everyone who talks to
// the API server, and the kubeconfigs that go with them.
func (l *Lab) issueCertificates() error {
	a, err := newAuthority(filepath.Join(l.Dir(), "pki"))
	if err != nil {
		return err
	}
	err = errors.Join(
		a.issue("apiserver", "kube-apiserver", nil, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1",
			managementAddress(l.record.Slot, 1).String(), hostLinkAddress(l.record.Slot, 1).String(), ServiceCIDR4.Addr().Next().String()),
		a.issue("service-account", "service-account", nil),
		a.issue("front-proxy", "front-proxy-client", nil),
		a.issue("apiserver-kubelet", "kube-apiserver-kubelet-client", []string{"system:masters"}),
		a.issue("admin", "lab-admin", []string{"system:masters"}),
		a.issue("controller-manager", "system:kube-controller-manager", nil),
		a.issue("scheduler", "system:kube-scheduler", nil),
		a.issue("kube-proxy", "system:kube-proxy", nil),
		l.writeKubeconfig(l.Kubeconfig(), l.hostServer(), "admin", ""),
	)
	for _, user := range []string{"controller-manager", "scheduler", "kube-proxy"} {
		err = errors.Join(err, l.writeKubeconfig(l.pki(user+".conf"), l.server(), user, ""))
	}
	for _, m := range l.Topology.Machines() {
		user := "kubelet-" + m.Name
		err = errors.Join(err,
			a.issue(user, "system:node:"+m.Name, []string{"system:nodes"}),
			l.writeKubeconfig(l.pki(user+".conf"), l.server(), user, ""))
	}
	return err
}

func (l *Lab) etcdCommand() []string {
	return []string{l.program("etcd"),
		"--name=lab", "--data-dir=" + filepath.Join(l.Dir(), "etcd"),
		"--unsafe-no-fsync", // a lab need not survive a power cut
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=lab=http://127.0.0.1:2380",
		"--quota-backend-bytes=4294967296", "--log-level=warn",
	}
}

func (l *Lab) apiServerCommand() []string {
	return []string{l.program("kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0", fmt.Sprintf("--secure-port=%d", apiPort),
		"--advertise-address=" + managementAddress(l.record.Slot, 1).String(),
		"--tls-cert-file=" + l.pki("apiserver.crt"), "--tls-private-key-file=" + l.pki("apiserver.key"),
		"--client-ca-file=" + l.pki("ca.crt"),
		"--service-cluster-ip-range=" + ServiceCIDR4.String() + "," + ServiceCIDR6.String(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pki("service-account.key"),
		"--service-account-signing-key-file=" + l.pki("service-account.key"),
		"--requestheader-client-ca-file=" + l.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + l.pki("front-proxy.crt"), "--proxy-client-key-file=" + l.pki("front-proxy.key"),
		"--allow-privileged", "--event-ttl=1h",
		"--kubelet-client-certificate=" + l.pki("apiserver-kubelet.crt"), "--kubelet-client-key=" + l.pki("apiserver-kubelet.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
}

func (l *Lab) controllerManagerCommand() []string {
	return []string{l.program("kube-controller-manager"),
		"--kubeconfig=" + l.pki("controller-manager.conf"),
		"--authentication-kubeconfig=" + l.pki("controller-manager.conf"),
		"--authorization-kubeconfig=" + l.pki("controller-manager.conf"),
		"--cloud-provider=external", "--allocate-node-cidrs=false",
		"--use-service-account-credentials", "--leader-elect=false",
		"--service-account-private-key-file=" + l.pki("service-account.key"), "--root-ca-file=" + l.pki("ca.crt"),
		"--cluster-signing-cert-file=" + l.pki("ca.crt"), "--cluster-signing-key-file=" + l.pki("ca.key"),
		// A dead machine is noticed in 12 s rather than 50: the lab's kubelets renew their leases every 2 s.
		"--node-monitor-period=1s", "--node-monitor-grace-period=12s",
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
}

// StopAPIServer ends the API server: what agents and
// routers do then is theirs alone. StartAPIServer brings it back.
func (l *Lab) StopAPIServer(ctx context.Context) error {
	return l.kill(ctx, "kube-apiserver")
}

// StartAPIServer starts the API server again, on the same data.
func (l *Lab) StartAPIServer(ctx context.Context) error {
	if _, err := l.start(controlHost, "kube-apiserver", components.Environment(), l.apiServerCommand()...); err != nil {
		return err
	}
	return Within(ctx, time.Minute, l.apiReady)
}

// Kubectl runs kubectl as admin and returns what it printed.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	return netns.Output(ctx, l.Namespace(controlHost), append([]string{l.program("kubectl"), "--kubeconfig=" + l.Kubeconfig()}, args...)...)
}

// Shell runs lines of a shell in a folder, as an administrator does at a host, and returns what they print: kubectl and plinth
// are found, and reach the API server from [ControlHost]. The first command that fails ends it with an error.
func (l *Lab) Shell(ctx context.Context, host, folder, lines string) (string, error) {
	return netns.Output(ctx, l.Namespace(host), "env", "--chdir="+folder, "KUBECONFIG="+l.Kubeconfig(),
		"PATH="+strings.Join([]string{l.binaries.folder, l.binaries.plinth, os.Getenv("PATH")}, ":"), "sh", "-e", "-c", lines)
}
