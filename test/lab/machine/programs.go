package machine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

const (
	containerdFile = "/etc/containerd/config.toml"
	cniTemplate    = "/etc/containerd/cni.template"
	kubeletFile    = "/var/lib/kubelet/config.yaml"
	socket         = "/run/containerd/containerd.sock"
)

// PauseImage is the image of the container that holds a pod's namespaces.
const PauseImage = "registry.k8s.io/pause:3.10.2"

// configure writes what the programs read.
func (c Config) configure() error {
	ca, err := os.ReadFile(c.CA)
	if err != nil {
		return err
	}
	files := []struct{ name, text string }{
		{containerdFile, containerdConfig}, {cniTemplate, cniConfig}, {kubeletFile, kubeletConfig},
		{"/etc/kubernetes/pki/ca.crt", string(ca)},
		{"/etc/kubernetes/resolv.conf", "nameserver {{.ClusterDNS}}\n"},
		{"/etc/kubernetes/manifests/.keep", ""},
	}
	for _, f := range files {
		if err := c.write(f.name, f.text); err != nil {
			return err
		}
	}
	return nil
}

// write fills in a template, but for the one that containerd fills in itself.
func (c Config) write(name, text string) error {
	if name == cniTemplate {
		return os.WriteFile(name, []byte(text), 0o644)
	}
	t, err := template.New(name).Parse(text)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := t.Execute(file, c.values()); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func (c Config) values() map[string]any {
	return map[string]any{
		"Plugins": filepath.Dir(c.Programs["bridge"]), "Pause": PauseImage, "Template": cniTemplate, "Socket": socket,
		"Runc": c.Programs["runc"], "ClusterDNS": c.ClusterDNS, "CgroupV1": !unified(),
	}
}

const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "{{.Socket}}"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{{.Pause}}"

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{{.Plugins}}"]
  conf_dir = "/etc/cni/net.d"
  conf_template = "{{.Template}}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = "{{.Runc}}"
  SystemdCgroup = false
`

// cniConfig is what containerd makes a CNI configuration of once the Node has pod
// CIDRs: one bridge, the addresses of spec.podCIDRs, and no masquerading. It stands
// in docs/guides/pod-networks.md, too.
const cniConfig = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "hairpinMode": true,
      "ipMasq": false,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [{{range $i, $cidr := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$cidr}}"}]{{end}}],
        "routes": [{{range $i, $route := .Routes}}{{if $i}}, {{end}}{"dst": "{{$route}}"}{{end}}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
{{if .CgroupV1}}failCgroupV1: false
{{end}}clusterDNS: [{{.ClusterDNS}}]
clusterDomain: cluster.local
failSwapOn: false
containerRuntimeEndpoint: unix://{{.Socket}}
evictionHard: {memory.available: 100Mi, nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
resolvConf: /etc/kubernetes/resolv.conf
staticPodPath: /etc/kubernetes/manifests
nodeStatusReportFrequency: 10s
nodeStatusUpdateFrequency: 2s
maxPods: 110
`

func (c Config) kubeletFlags() []string {
	return []string{
		"--config=" + kubeletFile, "--kubeconfig=" + c.Kubeconfig, "--hostname-override=" + c.Name,
		"--cloud-provider=external", "--v=2",
	}
}

func (c Config) proxyFlags() []string {
	return []string{
		"--kubeconfig=" + c.ProxyConf, "--hostname-override=" + c.Name, "--proxy-mode=" + c.ProxyMode,
		"--cluster-cidr=" + c.PodCIDRs, "--healthz-bind-address=[::]:10256", "--metrics-bind-address=127.0.0.1:10249",
		// Settings of the whole kernel, which the host has made.
		"--conntrack-max-per-core=0", "--conntrack-min=0",
		"--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		"--v=2",
	}
}

// importImages gives containerd the images, once it answers. Nothing can be pulled in a lab.
func (c Config) importImages(ctx context.Context, r *reaper) error {
	ctr := func(args ...string) error {
		return r.run(ctx, c.Programs["ctr"], append([]string{"--address=" + socket, "--namespace=k8s.io"}, args...)...)
	}
	for begun := time.Now(); ; {
		err := ctr("version")
		if err == nil {
			break
		}
		if time.Since(begun) > time.Minute || ctx.Err() != nil {
			return fmt.Errorf("containerd does not answer: %w", err)
		}
		time.Sleep(100 * time.Millisecond) // between two questions; its log says why it is not there yet
	}
	for _, image := range c.Images {
		if err := ctr("images", "import", image); err != nil {
			return err
		}
	}
	return nil
}
