package lab

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// server is the API server's URL as machines and control plane reach it.
func (l *Lab) server() string {
	return fmt.Sprintf("https://%s:%d", managementAddress(l.record.Slot, 1), apiPort)
}

// hostServer is its URL from the host.
func (l *Lab) hostServer() string {
	return fmt.Sprintf("https://%s:%d", hostLinkAddress(l.record.Slot, 1), apiPort)
}

// pki is a file of the lab's certificate authority.
func (l *Lab) pki(file string) string { return filepath.Join(l.Dir(), "pki", file) }

// writeKubeconfig writes a kubeconfig; a user without token is known by the certificate of that name.
// It holds certificates and keys themselves: client-go keeps connections by the names of
// files, and the next lab of this name has other certificates in files of the same names.
func (l *Lab) writeKubeconfig(file, server, user, token string) error {
	who := api.NewAuthInfo()
	if token != "" {
		who.Token = token
	} else {
		who.ClientCertificate, who.ClientKey = l.pki(user+".crt"), l.pki(user+".key")
	}
	cluster := api.NewCluster()
	cluster.Server, cluster.CertificateAuthority = server, l.pki("ca.crt")
	context := api.NewContext()
	context.Cluster, context.AuthInfo = "lab", user
	config := api.NewConfig()
	config.Clusters["lab"], config.AuthInfos[user], config.Contexts["lab"] = cluster, who, context
	config.CurrentContext = "lab"
	if err := api.FlattenConfig(config); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// connect makes the admin's client.
func (l *Lab) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading %s: %w", l.Kubeconfig(), err)
	}
	config.QPS, config.Burst = 500, 1000
	l.Kube, err = kubernetes.NewForConfig(config)
	return err
}

// InsideKubeconfig writes a kubeconfig of an admin who is on a real machine's
// management network, and returns its file.
func (l *Lab) InsideKubeconfig() (string, error) {
	file := l.pki("inside.conf")
	return file, l.writeKubeconfig(file, l.server(), "admin", "")
}
