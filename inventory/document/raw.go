package document

import (
	"net/netip"
	"time"

	"plinth.dev/plinth/inventory"
)

// The raw types are what a document says, field by field, before any default.
// Their comments are the reference documentation and the descriptions of the
// JSON Schema. Their tags say how they are read:
//
//	key       the key of the field
//	form      which values of its type it takes (see forms): a word, or the least and the
//	          largest; of a mapping with free keys that of the keys, "=", that of the values
//	required  whether it must be given
//	hidden    not for people to write; own: what Plinth alone writes
//	merge     once: of several documents one may give the list

// rawInventory is one document, or all of them after the merge.
type rawInventory struct {
	mapped

	// The version of this format: plinth.dev/v1alpha1.
	APIVersion scalar[string] `key:"apiVersion" required:"true"`
	// The kind of the document: Inventory.
	Kind scalar[string] `key:"kind" required:"true"`
	// The name of the inventory. Documents of one name are merged.
	Metadata rawMetadata `key:"metadata" required:"true"`
	// The datacenter. Any section may be split over several documents.
	Spec rawSpec `key:"spec"`
}

// rawMetadata names the inventory.
type rawMetadata struct {
	mapped

	// At most 63 lower-case letters, digits, "-" and ".". ConfigMaps bear it in the label plinth.dev/inventory.
	Name scalar[string] `key:"name" form:"name" required:"true"`
}

// rawSpec is the datacenter.
type rawSpec struct {
	mapped

	// The value of topology.kubernetes.io/region. Default: metadata.name.
	Region scalar[string] `key:"region" form:"label"`
	// What must be present before a set of documents is taken up.
	Expect rawExpect `key:"expect"`
	// What one change may do at most.
	Safety rawSafety `key:"safety"`
	// Labels of every Node.
	Labels entries[string] `key:"labels" form:"labelKey=label"`
	// Defaults for every BGP session. A rack overrides them, and a router a rack.
	BGP rawBGP `key:"bgp"`
	// Named sets of BFD timers.
	BFDProfiles list[rawBFDProfile] `key:"bfdProfiles"`
	// Names for BGP communities, to be used in pools.
	Communities entries[inventory.Community] `key:"communities" form:"name="`
	// How pods reach each other. Without it a CNI routes pods, and Plinth does not.
	PodNetwork rawPodNetwork `key:"podNetwork"`
	// BGP neighbours of all racks that have none of their own.
	Routers list[rawRouter] `key:"routers"`
	// What machines do that answer for VIPs on their own subnet. A rack overrides it.
	OnLink rawOnLink `key:"onLink"`
	// Addresses that Services of type LoadBalancer get.
	Pools list[rawPool] `key:"pools"`
	// Places that volumes live in, for the labels of PersistentVolumes.
	Storage list[rawStorage] `key:"storage"`
	// Racks and their machines.
	Racks list[rawRack] `key:"racks"`
}

// rawExpect guards against a set of documents that is half there.
type rawExpect struct {
	mapped

	// Racks without which the set is not taken up.
	Racks list[scalar[string]] `key:"racks" form:"name"`
	// Pools without which the set is not taken up.
	Pools list[scalar[string]] `key:"pools" form:"name"`
}

// rawSafety guards against edits that would take away what is in use. What counts is the inventory in force, not the edit.
type rawSafety struct {
	mapped

	// Machines that one change may drop, retire or replace: a number, or a percentage of the machines in force. Default: the larger of 1 and 5%.
	MaxRemoved scalar[inventory.Limit] `key:"maxRemoved"`
	// VIPs in use that one change may leave without a machine that announces them: a number, or a percentage of the VIPs in use. Default: 0.
	MaxUnreachable scalar[inventory.Limit] `key:"maxUnreachable"`
	// Machines that may leave the state active in one change: a number, or a percentage of the machines in force. Default: the larger of 1 and 25%.
	MaxDrained scalar[inventory.Limit] `key:"maxDrained"`
	// Take up nothing: what is in force stays, whatever the documents say, until this is false again. Default: false.
	Paused scalar[bool] `key:"paused"`
	// How long a session that an edit gives other terms (AS, password, TTL, multihop, address, BFD) has to come up on the one machine for each router where it is tried first, before the edit is refused; 0s: it is not tried. Default: 30s.
	SessionTrial scalar[time.Duration] `key:"sessionTrial" form:"sessionTrial"`
}

// rawSession holds what the spec, a rack and a router may each say about a session.
type rawSession struct {
	// Seconds without a word from the other end until the session is down (RFC 4271). Default: 9s; the least is 3s.
	HoldTime scalar[time.Duration] `key:"holdTime" form:"holdTime"`
	// What a router does while the agent restarts (RFC 4724); the word off does without.
	GracefulRestart scalar[time.Duration] `key:"gracefulRestart" form:"gracefulRestart"`
	// Accept packets only from directly connected neighbours, by their TTL of 255 (RFC 5082). Default: false.
	TTLSecurity scalar[bool] `key:"ttlSecurity"`
	// Hops to the other end. Default: 0, directly connected.
	Multihop scalar[int] `key:"multihop" form:"0..255"`
	// The BFD profile of the session, or off. Default: off.
	BFD scalar[string] `key:"bfd" form:"bfd"`
	// The Secret that holds the session's password (RFC 2385). A password itself is never written here.
	PasswordFrom rawSecretKey `key:"passwordFrom"`
	// What machines announce besides VIPs.
	Advertise rawAnnounce `key:"advertise"`
	// What machines accept from the router: none, or default for the default routes alone. What is
	// accepted is counted in the agent's status and metrics, as a sign that the router has a way out,
	// and never put into the machine's kernel. Default: none.
	Learn scalar[inventory.Learn] `key:"learn"`
	// Refused: a password belongs into a Secret, see passwordFrom.
	Password scalar[string] `key:"password" form:"password" hidden:"true"`
}

// rawSecretKey names one key of a Secret in Plinth's namespace.
type rawSecretKey struct {
	mapped

	// The name of the Secret.
	Secret scalar[string] `key:"secret" form:"node" required:"true"`
	// The key in it.
	Key scalar[string] `key:"key" form:"secretKey" required:"true"`
}

// rawGracefulRestart is the long form of gracefulRestart.
type rawGracefulRestart struct {
	// Time that a router keeps our routes after the session broke, at most 4095s. Default: 60s.
	RestartTime scalar[time.Duration] `key:"restartTime" form:"restartTime"`
}

// rawAnnounce says what machines announce besides VIPs.
type rawAnnounce struct {
	mapped

	// Announce the machine's own pod CIDRs. Default: true if podNetwork.mode is fabric.
	PodCIDRs scalar[bool] `key:"podCIDRs"`
}

// rawBGP holds the defaults for every session.
type rawBGP struct {
	mapped

	// The AS number of the machines: an integer, or asdot in quotes ("65010.10").
	ASN scalar[inventory.ASN] `key:"asn"`
	rawSession
}

// rawBFDProfile is a set of BFD timers (RFC 5880).
type rawBFDProfile struct {
	mapped

	// The name that sessions refer to.
	Name scalar[string] `key:"name" form:"name" required:"true"`
	// Time between two packets, both ways: 10ms to 60s.
	Interval scalar[time.Duration] `key:"interval" form:"10ms..1m" required:"true"`
	// Packets that may be missed until the session is down: 1 to 255. Default: 3.
	Multiplier scalar[int] `key:"multiplier" form:"1..255"`
}

// rawPodNetwork says how pods reach each other, and what their addresses are carved from.
type rawPodNetwork struct {
	mapped

	// How pods of different subnets reach each other: direct (not at all), fabric (through the routers) or overlay (through VXLAN). Nodes of one subnet always use kernel routes.
	Mode scalar[inventory.Mode] `key:"mode" required:"true"`
	// What racks and machines carve their pod CIDRs from: at most one prefix of each family. Absent: somebody else fills spec.podCIDRs of the Nodes.
	CIDRs list[scalar[netip.Prefix]] `key:"cidrs" merge:"once"`
	// Length of the block that each rack gets, so that a router carries one aggregate a rack. Default: 20 for IPv4 and 56 for IPv6, or less where cidrs are small.
	RackPrefix rawLengths `key:"rackPrefix"`
	// Length of the block that each machine gets. Default: 24 for IPv4 and 64 for IPv6.
	NodePrefix rawLengths `key:"nodePrefix"`
	// What the packets of overlay bear. Set it where another program of the machines, such as a CNI, has the same port. Machines change over within ten seconds, without a lost packet.
	VXLAN rawVXLAN `key:"vxlan"`
}

// rawVXLAN tells Plinth's tunnel from those of others.
type rawVXLAN struct {
	mapped

	// The UDP port that machines send to and listen at. Firewalls between them have to let it through. Default: 4789, which IANA gave to VXLAN.
	Port scalar[int] `key:"port" form:"1..65535"`
	// The VXLAN network identifier (VNI). Default: 114.
	VNI scalar[int] `key:"vni" form:"1..16777215"`
}

// rawRouter is a BGP neighbour of machines.
type rawRouter struct {
	mapped

	// The name that peers refer to.
	Name scalar[string] `key:"name" form:"name" required:"true"`
	// The address that sessions go to. It carries both families. A link-local one is
	// written with the machines' interface that leads to it: "fe80::1%eth0".
	Address scalar[netip.Addr] `key:"address" form:"router"`
	// Instead of address: one address of each family, for a session each.
	Addresses list[scalar[netip.Addr]] `key:"addresses" form:"router"`
	// The router's AS number: an integer, or asdot in quotes ("65010.10").
	ASN scalar[inventory.ASN] `key:"asn" required:"true"`
	// The TCP port of its BGP. Default: 179.
	Port scalar[int] `key:"port" form:"1..65535"`
	// The language that plinth router-config writes the router's side in: bird, eos, frr, junos, nvue, openbgpd, opnsense, routeros, unifi or vyos. Leave it out for a router whose side is written by hand. An error where the language has no word for something that sessions with the router have.
	OS scalar[string] `key:"os" form:"name"`
	rawSession
}

// rawStorage is a place that volumes live in.
type rawStorage struct {
	mapped

	// Its name.
	Name scalar[string] `key:"name" form:"name" required:"true"`
	// The rack that it stands in.
	Rack scalar[string] `key:"rack" form:"name" required:"true"`
	// Volumes of this NFS server.
	NFS rawNFS `key:"nfs"`
	// Volumes of this iSCSI portal.
	ISCSI rawISCSI `key:"iscsi"`
	// Volumes of this CSI driver.
	CSI rawCSI `key:"csi"`
}

// rawNFS is an NFS server.
type rawNFS struct {
	mapped

	// Its name or address, as PersistentVolumes have it in spec.nfs.server.
	Server scalar[string] `key:"server" required:"true"`
}

// rawISCSI is an iSCSI portal.
type rawISCSI struct {
	mapped

	// Its address and port, as PersistentVolumes have it in spec.iscsi.targetPortal.
	Portal scalar[string] `key:"portal" form:"portal" required:"true"`
}

// rawCSI is a CSI driver.
type rawCSI struct {
	mapped

	// Its name, as PersistentVolumes have it in spec.csi.driver.
	Driver scalar[string] `key:"driver" form:"node" required:"true"`
	// Volume attributes that must all be there with these values.
	Attributes entries[string] `key:"attributes" form:"any="`
}

// rawRack is a place with machines, subnets and routers of its own.
type rawRack struct {
	mapped

	// The value of plinth.dev/rack.
	Name scalar[string] `key:"name" form:"name" required:"true"`
	// The value of topology.kubernetes.io/zone. Default: the rack's name.
	Zone scalar[string] `key:"zone" form:"label"`
	// The value of plinth.dev/row.
	Row scalar[string] `key:"row" form:"label"`
	// Height of the rack in units; no machine may stand above it.
	Units scalar[int] `key:"units" form:"1..1000"`
	// The AS number of the rack's machines. Default: bgp.asn.
	ASN scalar[inventory.ASN] `key:"asn"`
	// Subnets of the machines. Nodes of one subnet reach each other without a router. Addresses of pools that lie in one can be announced on it: see advertise.via.
	Subnets list[scalar[netip.Prefix]] `key:"subnets"`
	// BGP neighbours of this rack.
	Routers list[rawRouter] `key:"routers"`
	// Names of the routers that the machines have sessions with. Default: the rack's own routers, else all routers of the spec.
	Peers list[scalar[string]] `key:"peers" form:"name"`
	// What machines do that answer for VIPs on the rack's subnets. Racks that share a subnet must say the same.
	OnLink rawOnLink `key:"onLink"`
	// The rack's block of each family of podNetwork.cidrs. Default: carved from them.
	PodCIDRs list[scalar[netip.Prefix]] `key:"podCIDRs"`
	// Like a machine's state; of the two the graver one counts. Default: active.
	State scalar[inventory.State] `key:"state"`
	rawSession
	// The machines.
	Machines list[rawMachine] `key:"machines"`
	// Written by Plinth alone, in what it keeps in the cluster: the blocks were carved.
	Carved scalar[bool] `key:"carved" hidden:"own"`
	// Written by Plinth alone, in what it keeps in the cluster: other racks on one of the subnets.
	Neighbours list[scalar[string]] `key:"neighbours" form:"name" hidden:"own"`
	// Written by Plinth alone, in what it keeps in the cluster: links that other racks are on as well.
	Links list[rawStoredLink] `key:"links" hidden:"own"`
}

// rawMachine is one machine, and the Kubernetes Node that runs on it.
type rawMachine struct {
	mapped

	// The name of the Kubernetes Node.
	Name scalar[string] `key:"name" form:"node" required:"true"`
	// What stays with the machine for its life, such as a serial number; the Node's providerID is plinth://<id>. It never holds a place: another id under the same name is another machine. Default: the one that the machine has in force, also where its name is another one now; of a new machine its name.
	ID scalar[string] `key:"id" form:"id"`
	// Other ways to know the machine.
	Match rawMatch `key:"match"`
	// ProviderIDs of other clouds that mean this machine.
	Aliases list[scalar[string]] `key:"aliases" form:"alias"`
	// The lowest unit of the rack that it takes; the value of plinth.dev/unit.
	Unit scalar[int] `key:"unit" form:"1..1000"`
	// The value of node.kubernetes.io/instance-type.
	Type scalar[string] `key:"type" form:"label"`
	// The Node's addresses of type InternalIP, in order of preference. A BGP session comes from the first one in the rack's subnet that the router is in; with multihop, or where there is none, from the first of its family. Required, but for machines that are planned or retired.
	Addresses list[scalar[netip.Addr]] `key:"addresses"`
	// The Node's addresses of type ExternalIP.
	ExternalAddresses list[scalar[netip.Addr]] `key:"externalAddresses"`
	// The Node's address of type Hostname. Default: the name.
	Hostname scalar[string] `key:"hostname" form:"hostname"`
	// The machine's block of each family of podNetwork.cidrs. Default: carved from the rack's.
	PodCIDRs list[scalar[netip.Prefix]] `key:"podCIDRs"`
	// Labels of the Node, besides those of the spec.
	Labels entries[string] `key:"labels" form:"labelKey=label"`
	// Taints of the Node.
	Taints list[rawTaint] `key:"taints"`
	// planned, active, maintenance, off or retired. Default: active.
	State scalar[inventory.State] `key:"state"`
	// Why it is in that state, for people.
	Reason scalar[string] `key:"reason" form:"reason"`
	// Written by Plinth alone, in what it keeps in the cluster: nobody mentions the machine any more.
	Held scalar[bool] `key:"held" hidden:"own"`
	// Written by Plinth alone, in what it keeps in the cluster: the blocks were carved.
	Carved scalar[bool] `key:"carved" hidden:"own"`
}

// rawMatch tells a machine by what its Node reports.
type rawMatch struct {
	mapped

	// The Node's status.nodeInfo.systemUUID, in any case, with dashes or without. All zeros and all Fs, which boards without one report, decide nothing.
	SystemUUID scalar[string] `key:"systemUUID" form:"uuid"`
}

// rawTaint is a taint of a Node.
type rawTaint struct {
	mapped

	// Its key.
	Key scalar[string] `key:"key" form:"labelKey" required:"true"`
	// Its value. Default: empty.
	Value scalar[string] `key:"value" form:"label"`
	// NoSchedule, PreferNoSchedule or NoExecute.
	Effect scalar[string] `key:"effect" form:"effect" required:"true"`
}
