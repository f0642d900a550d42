package machine

import (
	"encoding/json"
	"fmt"
	"os"
)

// CSIDriver is the driver of volumes that every machine has.
const CSIDriver = "disks.lab.example"

// Config is what one machine is.
type Config struct {
	Name       string
	Lab        string            // tells the cgroups of two labs apart
	Disk       string            // folder of the host that outlives the machine's power
	Volumes    string            // folder of the host with the volumes that any machine can mount
	MachineID  string            // machine-id(5), of the disk
	SystemUUID string            // of the board
	Programs   map[string]string // name -> file of the host
	Images     []string          // archives that containerd imports at each start
	CA         string            // file with the certificate of the cluster's authority
	Kubeconfig string            // of the kubelet
	ProxyConf  string            // kubeconfig of kube-proxy
	ProxyMode  string            // nftables or iptables
	PodCIDRs   string            // of all machines, a comma list
	ClusterDNS string            // address of the cluster's DNS Service
	// Masquerade lists, for each family, the networks that pods reach under their own
	// addresses; everywhere else they go under the machine's, as with any CNI.
	Masquerade map[string][]string // "ip", "ip6"
}

// Read reads a configuration that Write wrote.
func Read(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, err
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Write writes a configuration for Read.
func (c Config) Write(file string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
