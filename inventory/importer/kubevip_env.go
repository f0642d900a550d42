package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// kubeVIPClass is the class of Services that kube-vip answers where it is told to answer a class alone, and no other name.
const kubeVIPClass = "kube-vip.io/kube-vip-class"

const onItsSubnet = "a machine answers on the interface that has the rack's subnet"

// kubeVIPNoted are variables of kube-vip's environment that Plinth has no counterpart of, with what it does instead. Neither empty nor false they
// are noted.
var kubeVIPNoted = map[string]string{
	"annotation":                 "the BGP peers of each Node stand in its annotations, which are not read: write routers, and peers of racks, by hand",
	"bgp_attach_ip_to_interface": "Plinth puts VIPs on no interface: kube-proxy answers for them",
	"bgp_keepalive_interval":     "keepalives are sent every third of the hold time (RFC 4271, section 10)",
	"bgp_routerid":               "the router ID is the machine's first IPv4 address, or made of its name",
	"bgp_routerinterface":        "the router ID is the machine's first IPv4 address, or made of its name",
	"bgp_sourceif":               "sessions come from the machine's address in the router's subnet, else from the first of the router's family",
	"bgp_sourceip":               "sessions come from the machine's address in the router's subnet, else from the first of the router's family",
	"config_file":                "settings in that file are not read: give them as variables in what is imported",
	"cp_enable":                  "Plinth keeps no address of the control plane. Keep kube-vip for it, with svc_enable=false",
	"disable_service_updates":    "Plinth writes the statuses of Services itself: whatever wrote them until now has to stop",
	"egress_enableinternalsnat":  noEgress,
	"egress_podcidr":             noEgress,
	"egress_servicecidr":         noEgress,
	"enable_node_labeling":       "Plinth puts no label on the Node that answers for a VIP; plinth vips says which one does",
	"enable_service_security":    "Plinth filters no packets; a NetworkPolicy or a firewall does",
	"enable_upnp":                "Plinth opens no ports by UPnP: open them in the router",
	"lb_class_legacy_handling":   "Plinth answers Services without a class, and those of class plinth.dev/bgp",
	"mirror_dest_interface":      "Plinth mirrors no traffic",
	"mpbgp_ipv4":                 "the next hop is the machine's address of the session",
	"mpbgp_ipv6":                 "the next hop is the machine's address of the session",
	"mpbgp_nexthop":              "a session carries both families where the router does; two addresses of a router make a session for each",
	"svc_namespace":              "Plinth serves Services of all namespaces; namespaces of a pool keep others from it",
	"vip_interface":              onItsSubnet,
	"vip_routingtable":           "Plinth announces no VIP by routes in a machine's own table: whatever tells routers of them has to be replaced by sessions with routers, or by VIPs on the link",
	"vip_servicesinterface":      onItsSubnet,
	"vip_cidr":                   "the prefix length is that of the rack's subnet", // vip_subnet before v0.9
	"vip_subnet":                 "the prefix length is that of the rack's subnet",
	"vip_wireguard":              "Plinth announces no VIPs through WireGuard",
	"zebra_enable":               "Plinth speaks BGP itself, and no Zebra protocol",
	addressByFlag:                "kube-vip reads this flag where it writes a manifest, and its manager makes no session of it: bgp_peeraddress does",
	peersByFlag:                  "kube-vip reads this flag where it writes a manifest, and its manager does not: sessions are made of bgp_peers alone",
}

const noEgress = "Plinth changes no source addresses of pods (egress): another program has to"

// kubeVIPMeaningless are variables that are of the control plane, of elections and of the program itself.
var kubeVIPMeaningless = []string{
	"backend_health_check_interval", "control_plane_health_check_address", "control_plane_health_check_ca_path", "control_plane_health_check_failure_threshold",
	"control_plane_health_check_period_seconds", "control_plane_health_check_timeout_seconds", "cp_detect", "cp_namespace", "debounce_time", "dhcp_backoff_attempts", "dhcp_mode",
	"dns_mode", "egress_clean", "egress_withnftables", "enable_endpoints", "health_check_port", "instance_name", "iptables_backend", "k8s_config_file", "kubernetes_addr", "lb_enable",
	"lb_fwdmethod", "lb_port", "per_service_election_on_demand", "port", "prometheus_server", "svc_election", "svc_leasename", "vip_allow_interface_not_up", "vip_arprate",
	"vip_cleanroutingtable", "vip_ddns", "vip_interfaceloglobal", "vip_leaderelection", "vip_leaseannotations", "vip_leaseduration", "vip_leasename", "vip_loglevel",
	"vip_loseleadership", "vip_loseleadership_timeout_seconds", "vip_nodename", "vip_preserve_on_leadership_loss", "vip_renewdeadline", "vip_retryperiod", "vip_routingprotocol",
	"vip_routingtableid", "vip_routingtabletype", "vip_singlenode", "vip_skipdad", "vip_startleader", "zebra_software_name", "zebra_url", "zebra_version",
	"kubernetes_service_host", "kubernetes_service_port", "tz", "vip_configmap",
	"vip_addpeerstolb", "vip_localpeer", "vip_peers", // of kube-vip before v0.4, whose control plane voted by Raft
}

// kubeVIPRead are variables that are carried over, each by a function that says so.
var kubeVIPRead = []string{
	"address", "bgp_as", "bgp_enable", "bgp_hold_time", "bgp_multihop", "bgp_peeraddress", "bgp_peeras", "bgp_peerpass", "bgp_peers", "lb_class_name", "lb_class_only", "svc_enable", "vip_address",
	"vip_arp",
}

// daemon reads a kube-vip.
func (r *kubeVIPReader) daemon(set settings) {
	set.narrow()
	r.controlPlane(set)
	if !set.yes("svc_enable") {
		r.leaveOut(set.object, "", ByHand, "serves no Services (svc_enable is not true), so that nothing of it is in the inventory. Keep it where it holds the address of the control plane: Plinth has none")
		return
	}
	set.object.mark(carried, set.get("svc_enable").path)
	made := kubeVIPDaemon{settings: set}
	silent := []string{}
	switch {
	case set.yes("vip_arp"):
		made.via = inventory.ViaLink
		silent = append(silent, r.besidesARP(set)...)
	case set.yes("bgp_enable"):
		made.via = inventory.ViaBGP
		silent = append(silent, "vip_cidr", "vip_interface", "vip_servicesinterface", "vip_subnet")
	case !set.yes("vip_routingtable") && !set.yes("vip_wireguard"):
		r.note(set.object, set.container, Differs, "announces no VIP: neither vip_arp nor bgp_enable is true. With Plinth VIPs are announced over BGP, or on the link")
	}
	if path, is := r.nowhere(set); is {
		r.leaveOut(set.object, path, NotValid, "runs on none of the Nodes that were read: it is left out")
		return
	}
	if made.via != "" {
		r.markPlaces(set)
	}
	made.racks = r.racksOfPods(made)
	for _, v := range set.variables {
		if !slices.Contains(silent, strings.ToLower(v.name)) {
			r.variable(set, v)
		}
	}
	r.otherwise(set)
	if made.via == inventory.ViaLink {
		set.object.mark(carried, set.get("vip_arp").path)
	}
	if made.via == inventory.ViaBGP {
		set.object.mark(carried, set.get("bgp_enable").path)
		r.bgp(made)
	}
	r.class(set)
	r.daemons = append(r.daemons, made)
}

// markPlaces marks the fields that choose the Nodes of a Pod as carried over, but for those on the Nodes' system.
func (r *kubeVIPReader) markPlaces(daemon settings) {
	at := daemon.template + ".nodeSelector"
	content := contentOf(daemon.object.at(at))
	for i := 0; i+1 < len(content); i += 2 {
		if !ofSystem(content[i].Value) {
			daemon.object.mark(carried, join(at, content[i].Value))
		}
	}
	daemon.object.mark(carried, daemon.termsPath())
	if why := daemon.unreadTerm(); why != "" {
		r.markAndNote(daemon.object, daemon.termsPath(), Differs, why+" is not read: as far as these terms say it, all machines are chosen. In the inventory advertise.racks of a pool, and routers of a rack, choose some")
	}
}

// placePath returns the path of the field by which a Pod chooses its Nodes.
func (s settings) placePath() string {
	if n := s.object.at(s.template + ".nodeSelector"); n != nil && !ofSystemAlone(n) {
		return s.template + ".nodeSelector"
	}
	return s.template + ".affinity"
}

// variable notes the fate of a variable that no function carries over.
func (r *kubeVIPReader) variable(daemon settings, one variable) {
	name := strings.ToLower(one.name)
	message, listed := kubeVIPNoted[name]
	tell := func(code Code, message string) {
		r.markAndNote(daemon.object, one.path, code, one.String()+": "+message)
	}
	switch counts := daemon.get(name); {
	case counts.path != one.path && counts.isSet() && one.isSet():
		tell(Differs, fmt.Sprintf("%s says it, too, and outweighs it", counts))
	case slices.Contains(kubeVIPMeaningless, name), strings.HasSuffix(name, "interface") && one.value == "lo":
	case name == "bgp_peerpass": // it may come from a Secret
	case listed && one.asPlinth(name):
	case listed:
		tell(NoCounterpart, message)
	case !slices.Contains(kubeVIPRead, name):
		tell(UnknownField, "is not known here, and not carried over")
	case one.from != nil:
		tell(ByHand, "its value comes from elsewhere and is not read: write it down in what is imported")
	}
}

// asPlinth reports whether the value of a variable that Plinth has no counterpart of is what Plinth does without one.
func (v variable) asPlinth(name string) bool {
	switch {
	case v.value == "" && v.from == nil, v.value == "false":
		return true
	case name == "vip_subnet", name == "vip_cidr":
		return hostMask(v.value)
	default:
		return name == "lb_class_legacy_handling" && v.value == "true"
	}
}

// hostMask reports whether a VIP gets a prefix length of its own alone.
func hostMask(value string) bool {
	return !slices.ContainsFunc(strings.Split(value, ","), func(s string) bool {
		s = strings.TrimPrefix(strings.TrimSpace(s), "/")
		return s != "32" && s != "128" && s != "auto"
	})
}

// otherwise notes settings that come by all of a ConfigMap or Secret.
func (r *kubeVIPReader) otherwise(s settings) {
	if path := s.container + ".envFrom"; s.object.has(path) {
		r.markAndNote(s.object, path, ByHand, "what is in there is not read: write the variables down in what is imported")
	}
}

// controlPlane remembers the control plane's address.
func (r *kubeVIPReader) controlPlane(daemon settings) {
	if !daemon.yes("cp_enable") {
		return
	}
	for _, name := range []string{"address", "vip_address"} {
		v := daemon.get(name)
		if addr, err := netip.ParseAddr(v.value); err == nil {
			r.keep = append(r.keep, controlPlaneVIP{setVariable{v, daemon}, addr})
		}
	}
}

// class notes Services with a class, which cannot be changed.
func (r *kubeVIPReader) class(daemon settings) {
	alone := daemon.get("lb_class_only")
	name := daemon.get("lb_class_name")
	if !daemon.yes("lb_class_only") {
		return
	}
	daemon.object.mark(noted, alone.path)
	class := kubeVIPClass
	if name.value != "" {
		class = name.value
		daemon.object.mark(noted, name.path)
	}
	r.classAlone(daemon, alone, class)
	if name.path != "" {
		r.tellClass(daemon, name, class)
	}
}

// tellClass notes that Plinth has another class.
func (r *kubeVIPReader) tellClass(s settings, v variable, class string) {
	r.note(s.object, v.path, ByHand, fmt.Sprintf("%s: Services of class %s are not Plinth's, whose class is plinth.dev/bgp", v, class))
}

// classAlone notes the steps by hand that are left where kube-vip answered Services of one class alone.
func (r *kubeVIPReader) classAlone(s settings, v variable, class string) {
	r.note(s.object, v.path, ByHand, fmt.Sprintf("%s: run Plinth with --load-balancer-class-only, too. The class of a Service cannot be changed: make those of %s again, with loadBalancerClass plinth.dev/bgp", v, class))
}

// providerRead are the variables of kube-vip's cloud provider.
var providerRead = []string{"KUBEVIP_NAMESPACE", "KUBEVIP_CONFIG_MAP", "KUBEVIP_ENABLE_LOADBALANCERCLASS", "KUBEVIP_CUSTOM_LOADBALANCERCLASS_NAME"}

// provider reads kube-vip's cloud provider.
func (r *kubeVIPReader) provider(set settings) {
	set.narrow()
	set.object.mark(meaningless, set.container+".command", set.container+".args")
	namespace, name, _ := strings.Cut(r.configMap, "/")
	for _, one := range set.variables {
		switch {
		case !slices.Contains(providerRead, one.name):
			r.markAndNote(set.object, one.path, UnknownField, one.name+": is not known here, and not carried over")
		case one.name == "KUBEVIP_NAMESPACE" && one.value != "":
			namespace = one.value
			r.named = append(r.named, setVariable{one, set})
		case one.name == "KUBEVIP_CONFIG_MAP" && one.value != "":
			name = one.value
			r.named = append(r.named, setVariable{one, set})
		case one.name == "KUBEVIP_ENABLE_LOADBALANCERCLASS" && set.yes(one.name):
			class := kubeVIPClass
			if other := set.get("KUBEVIP_CUSTOM_LOADBALANCERCLASS_NAME"); other.value != "" {
				class = other.value
				set.object.mark(noted, other.path)
				r.tellClass(set, other, class)
			}
			set.object.mark(noted, one.path)
			r.classAlone(set, one, class)
		}
	}
	r.configMap = namespace + "/" + name
}
