// Package kubevip builds kube-vip v1.0.0 of its Go module, and says how it is run beside Plinth: in ARP mode with a Lease for
// each Service, as its documentation has the DaemonSet for Services.
package kubevip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"plinth.dev/plinth/test/components"
)

const (
	// Program is what Build writes into a folder.
	Program = "kube-vip"
	// Namespace is where its account is.
	Namespace = "kube-system"
	// Account is the service account whose rights it has.
	Account = "kube-vip"
)

// Build builds its program into a folder.
func Build(folder string) error {
	root, err := components.Root()
	if err != nil {
		return err
	}
	args := append([]string{}, components.Shipped...)
	args = append(args, "-o", filepath.Join(folder, Program), "github.com/kube-vip/kube-vip")
	return components.GoBuild(context.Background(), filepath.Join(root, "test", "bench", "kubevip", "module"), args...)
}

// Home makes a kubeconfig the one that it reads where it is no pod, whatever its flag says, and returns the home folder for that.
func Home(folder, kubeconfig string) (string, error) {
	home := filepath.Join(folder, "home")
	text, err := os.ReadFile(kubeconfig)
	if err == nil {
		err = os.MkdirAll(filepath.Join(home, ".kube"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, ".kube", "config"), text, 0o600)
	}
	return home, err
}

// Command runs it on a machine. The times are those that its documentation has.
func Command(folder, home, machine, device string) []string {
	return []string{
		"env", "HOME=" + home, filepath.Join(folder, Program), "manager", "--arp", "--services", "--servicesElection",
		"--interface=" + device, "--nodeName=" + machine, "--namespace=" + Namespace,
		"--leaseDuration=15", "--leaseRenewDuration=10", "--leaseRetry=2", "--prometheusHTTPServer=",
	}
}

// DaemonSet is its workload, with the settings that Command runs it with, whose pods nobody schedules: machines of a lab have its programs.
func DaemonSet(device string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-vip-ds, namespace: %s}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: kube-vip-ds}}
  template:
    metadata: {labels: {app.kubernetes.io/name: kube-vip-ds}}
    spec:
      schedulerName: nobody
      serviceAccountName: %s
      containers:
      - name: kube-vip
        image: ghcr.io/kube-vip/kube-vip:v1.0.0
        args: [manager]
        env:
        - {name: vip_arp, value: "true"}
        - {name: svc_enable, value: "true"}
        - {name: svc_election, value: "true"}
        - {name: vip_interface, value: %s}
`, Namespace, Account, device)
}

// Pools is the configuration of its cloud provider, which gives Services their addresses.
func Pools(ranges ...string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubevip, namespace: %s}\ndata: {range-global: %q}\n", Namespace, strings.Join(ranges, ","))
}

// Rights is its account with what it may do, under the names of its own manifest.
func Rights() string {
	return fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: %[2]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:kube-vip-role}
rules:
- {apiGroups: [""], resources: [services/status], verbs: [update]}
- {apiGroups: [""], resources: [services, endpoints], verbs: [list, get, watch, update]}
- {apiGroups: [""], resources: [nodes], verbs: [list, get, watch, update, patch]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, get, watch, update, create]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, get, watch, update]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:kube-vip-binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:kube-vip-role}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
`, Account, Namespace)
}
