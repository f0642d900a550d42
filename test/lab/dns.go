package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// clusterDNS is the address of the Service of the cluster's DNS, where kubeadm puts it, too.
var clusterDNS = netip.MustParseAddr("10.96.0.10")

// startDNS starts CoreDNS in a pod, as kubeadm does.
func (l *Lab) startDNS(ctx context.Context) error {
	file := filepath.Join(l.Dir(), "pki", "dns.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(dnsManifest, dnsImage, clusterDNS)), 0o600); err != nil {
		return err
	}
	_, err := l.Kubectl(ctx, "apply", "--server-side", "-f", file)
	return err
}

const dnsManifest = `apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
  - {apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:53 {
        errors
        ready :8181
        kubernetes cluster.local in-addr.arpa ip6.arpa {
            pods insecure
            fallthrough in-addr.arpa ip6.arpa
        }
        cache 5
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 1
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      dnsPolicy: Default
      priorityClassName: system-cluster-critical
      containers:
        - name: coredns
          image: %s
          imagePullPolicy: Never
          args: [-conf, /etc/coredns/Corefile]
          readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 1}
          volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: %s
  selector: {k8s-app: kube-dns}
  ports:
    - {name: dns, port: 53, protocol: UDP}
    - {name: dns-tcp, port: 53, protocol: TCP}
`
