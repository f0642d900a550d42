package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// kubeVIPFlag is a flag of kube-vip's command line.
type kubeVIPFlag struct {
	variable string // that says the same; empty: the flag has no meaning here
	isBool   bool   // it takes its value after = alone
}

// kubeVIPFlags are all flags of kube-vip v1.2's manager, by name. A variable of the environment outweighs its flag.
var kubeVIPFlags = map[string]kubeVIPFlag{
	"address": {"address", false}, "allowInterfaceNotUp": {"vip_allow_interface_not_up", true}, "annotations": {"annotation", false},
	"arp": {"vip_arp", true}, "autodetectcp": {"cp_detect", true}, "bgp": {"bgp_enable", true},
	"bgpAttachIPToInterface": {"bgp_attach_ip_to_interface", true}, "bgpHoldTimer": {"bgp_hold_time", false},
	"bgpKeepAliveInterval": {"bgp_keepalive_interval", false}, "bgpRouterID": {"bgp_routerid", false}, "bgppeers": {peersByFlag, false},
	"c": {"vip_configmap", false}, "configMap": {"vip_configmap", false}, "cleanRoutingTable": {"vip_cleanroutingtable", true}, "config-file": {"config_file", false}, "controlplane": {"cp_enable", true},
	"controlPlaneHealthCheckAddress":          {"control_plane_health_check_address", false},
	"controlPlaneHealthCheckCAPath":           {"control_plane_health_check_ca_path", false},
	"controlPlaneHealthCheckFailureThreshold": {"control_plane_health_check_failure_threshold", false},
	"controlPlaneHealthCheckPeriodSeconds":    {"control_plane_health_check_period_seconds", false},
	"controlPlaneHealthCheckTimeoutSeconds":   {"control_plane_health_check_timeout_seconds", false},
	"ddns":                                    {"vip_ddns", true}, "debounceTime": {"debounce_time", false}, "dhcpBackoffAttempts": {"dhcp_backoff_attempts", false},
	"dhcpMode": {"dhcp_mode", false}, "disableServiceUpdates": {"disable_service_updates", true}, "dnsMode": {"dns_mode", false},
	"egressWithNftables": {"egress_withnftables", true}, "enableEndpoints": {"enable_endpoints", true}, "enableLoadBalancer": {"lb_enable", true},
	"enableNodeLabeling": {"enable_node_labeling", true},
	"etcdCACert":         {"", false}, "etcdCert": {"", false}, "etcdEndpoints": {"", false}, "etcdKey": {"", false},
	"healthCheckPort": {"health_check_port", false}, "instanceName": {"instance_name", false}, "interface": {"vip_interface", false},
	"k8sConfigPath": {"k8s_config_file", false}, "lbClassName": {"lb_class_name", false}, "lbClassNameLegacyHandling": {"lb_class_legacy_handling", true},
	"lbClassOnly": {"lb_class_only", true}, "lbForwardingMethod": {"lb_fwdmethod", false}, "lbPort": {"lb_port", false},
	"leaderElection": {"vip_leaderelection", true}, "leaderElectionType": {"", false}, "leaseDuration": {"vip_leaseduration", false},
	"leaseName": {"vip_leasename", false}, "leaseRenewDuration": {"vip_renewdeadline", false}, "leaseRetry": {"vip_retryperiod", false},
	"localAS": {"bgp_as", false}, "log": {"vip_loglevel", false}, "loInterfaceGlobalScope": {"vip_interfaceloglobal", true},
	"loseLeadership": {"vip_loseleadership", true}, "loseLeadershiptTimeoutSeconds": {"vip_loseleadership_timeout_seconds", false},
	"mirrorDestInterface": {"mirror_dest_interface", false}, "multihop": {"bgp_multihop", true}, "n": {"cp_namespace", false},
	"namespace": {"cp_namespace", false}, "nodeName": {"vip_nodename", false}, "onlyAllowTrafficServicePorts": {"enable_service_security", true},
	"peerAS": {"bgp_peeras", false}, "peerAddress": {addressByFlag, false}, "peerPass": {"bgp_peerpass", false},
	"perServiceElectionOnDemand": {"per_service_election_on_demand", true}, "port": {"port", false},
	"preserveVipOnLeadershipLoss": {"vip_preserve_on_leadership_loss", true}, "prometheusHTTPServer": {"prometheus_server", false},
	"routingProtocol": {"vip_routingprotocol", false}, "serviceInterface": {"vip_servicesinterface", false}, "services": {"svc_enable", true},
	"servicesElection": {"svc_election", true}, "servicesLeaseName": {"svc_leasename", false}, "sourceIF": {"bgp_sourceif", false},
	"sourceIP": {"bgp_sourceip", false}, "table": {"vip_routingtable", true}, "tableID": {"vip_routingtableid", false},
	"tableType": {"vip_routingtabletype", false}, "vip": {"vip_address", false}, "vipSubnet": {"vip_subnet", false},
	"wireguard": {"vip_wireguard", true}, "zebra": {"zebra_enable", true}, "zebraSoftwareName": {"zebra_software_name", false},
	"zebraUrl": {"zebra_url", false}, "zebraVersion": {"zebra_version", false},
}

// peersByFlag and addressByFlag stand for flags that have a variable of the same meaning, and that the manager makes no sessions of. All names of
// variables have small letters.
const (
	peersByFlag   = "--bgppeers"
	addressByFlag = "--peeraddress"
)

// subcommands are the subcommands of kube-vip that serve Services.
var subcommands = []string{"manager", "service"}

// flagsOf are the flags of a container, as variables that come after those of its environment. What is no flag, and not the program itself, is left
// to be noted.
func flagsOf(object *object, container string, n *yaml.Node) (all []variable) {
	type argument struct{ path, text string }
	var line []argument
	for _, key := range []string{"command", "args"} {
		if list := child(n, key); list != nil && list.Kind == yaml.SequenceNode {
			for i, a := range list.Content {
				line = append(line, argument{fmt.Sprintf("%s.%s[%d]", container, key, i), a.Value})
			}
		}
	}
	for i := 0; i < len(line); i++ {
		at := line[i]
		name, value, has := strings.Cut(strings.TrimLeft(at.text, "-"), "=")
		flag, known := kubeVIPFlags[name]
		switch {
		case !strings.HasPrefix(at.text, "-"):
			if slices.Contains(subcommands, at.text) || i == 0 && path.Base(at.text) == "kube-vip" {
				object.mark(meaningless, at.path)
			}
			continue
		case !known:
			all = append(all, variable{path: at.path, name: "--" + name, flag: "--" + name, value: value})
			continue
		case has:
		case flag.isBool:
			value = "true"
		case i+1 < len(line):
			object.mark(meaningless, at.path) // the note is at the value
			i++
			at, value = line[i], line[i].text
		}
		if flag.variable == "" {
			object.mark(meaningless, at.path)
			continue
		}
		all = append(all, variable{path: at.path, name: flag.variable, flag: "--" + name, value: value})
	}
	return all
}
