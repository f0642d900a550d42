package inventory

import _ "embed" // of this file

// CodesSource is this file, whose comments document the codes.
//
//go:embed codes.go
var CodesSource string

// Code is the stable name of a kind of problem: P and four digits. Each has a
// page in docs/reference/problems, made of its comment here.
type Code string

// Documents: what stands in a file or in a key of a ConfigMap.
const (
	// The document is not YAML. Nothing of this file or key is read until it is. JSON is YAML too.
	BadYAML Code = "P0101"
	// The document has another apiVersion than plinth.dev/v1alpha1, or one that this version of
	// Plinth does not read.
	BadAPIVersion Code = "P0103"
	// The document is of Plinth's API group or in a ConfigMap of an inventory, and not an Inventory.
	// Documents of other kinds are passed over in files and folders, and refused in a ConfigMap's keys.
	BadKind Code = "P0104"
	// The document belongs to another inventory. All documents that are read together bear one
	// metadata.name.
	OtherInventory Code = "P0105"
	// There is no document of kind Inventory at all, neither in a file nor in a key of a ConfigMap that
	// bears the label plinth.dev/inventory. Nothing is taken for a mistake, so that what is in force
	// stays.
	NoDocument Code = "P0106"
	// YAML aliases make the document far larger than it is written. It is refused, for such documents
	// are used to exhaust memory.
	TooManyAliases Code = "P0107"
	// The ConfigMap holds an inventory and does not bear the label plinth.dev/inventory, so Plinth does
	// not read it, neither in a cluster nor in a file. The label's value is the inventory's
	// metadata.name.
	Unlabelled Code = "P0108"
)

// Shape: keys and the kinds of their values.
const (
	// No key of this name can stand here. Keys that begin with x- are allowed anywhere, and ignored.
	UnknownKey Code = "P0201"
	// One mapping has the same key twice, and YAML does not say which of them counts.
	KeyTwice Code = "P0202"
	// The value is of another kind than is wanted: text, a number, a truth value, a list or a
	// mapping. Text that looks like a number or truth value to YAML needs quotes.
	WrongType Code = "P0203"
	// A key that must be there is not.
	Missing Code = "P0204"
	// Two documents give the same setting. Documents are joined: lists of named things and mappings
	// of free keys from all of them, but each setting from one.
	GivenTwice Code = "P0205"
	// Two keys are given of which there can be one.
	Conflicting Code = "P0206"
)

// Values.
const (
	// The name is not of the form that Kubernetes wants: lower-case letters, digits, "-" and ".",
	// with a letter or digit at both ends.
	BadName Code = "P0301"
	// The value is not a plain IPv4 or IPv6 address. Zones, leading zeros, prefix lengths and IPv4
	// addresses in IPv6 form are refused.
	BadAddress Code = "P0302"
	// The value is not an address with a prefix length.
	BadPrefix Code = "P0303"
	// The prefix has bits set behind its length. Either the length is wrong or the address is; Plinth
	// does not guess.
	HostBits Code = "P0304"
	// The range is not two addresses of one family, the smaller first.
	BadRange Code = "P0305"
	// The value is not an AS number, or is one that is never to be used: 0, 23456, 65535 and
	// 4294967295.
	BadASN Code = "P0306"
	// The AS number in asdot form is a number with a point to YAML: 65010.10 becomes 65010.1, which
	// is another AS. Put it in quotes.
	FloatASN Code = "P0307"
	// The value is not a time with a unit, such as 100ms, 9s or 2m. Times of BGP are in whole
	// seconds.
	BadDuration Code = "P0308"
	// The value is smaller or larger than it can be.
	OutOfRange Code = "P0309"
	// One of a few words must stand here, and this is none of them.
	UnknownWord Code = "P0310"
	// The value is not a BGP community. Standard ones have two numbers of 16 bits (65010:100), large
	// ones three of 32 bits (large:65010:1:7).
	BadCommunity Code = "P0311"
	// The key or value is not what Kubernetes takes for a label.
	BadLabel Code = "P0312"
	// The label is filled from another field, or kept by Plinth or the kubelet. Two sources for one
	// label would fight.
	ReservedLabel Code = "P0313"
	// The taint is there twice, or Plinth or Kubernetes put it on by themselves. Write the state
	// instead.
	BadTaint Code = "P0314"
	// The value is not a UUID. Copy systemUUID as kubectl shows it in the Node's status.nodeInfo.
	BadUUID Code = "P0315"
	// The alias is not a providerID of another cloud. Plinth's own are made from the id.
	BadAlias Code = "P0316"
	// A password stands in the inventory. Inventories lie in Git and in ConfigMaps; name a Secret
	// with passwordFrom. Change the password too, for it has been written down.
	InlinePassword Code = "P0317"
	// The value is neither a number of machines nor a percentage.
	BadLimit Code = "P0318"
	// The operator and the values do not go together: In and NotIn want values, Exists and
	// DoesNotExist take none.
	BadSelector Code = "P0319"
	// The value is not a host name.
	BadHostname Code = "P0320"
	// The id cannot stand in a providerID. It is what stays with the machine for its life, without
	// plinth:// before it.
	BadID Code = "P0321"
	// The value does not name a Service as namespace/name.
	BadService Code = "P0322"
	// The text is too long, or has more than one line.
	BadText Code = "P0323"
)

// Names that are used twice or not at all.
const (
	// Two things of one kind have the same name. Names of machines and routers are unique in the
	// whole inventory, across racks and documents.
	NameTwice Code = "P0401"
	// No document has a rack of that name.
	UnknownRack Code = "P0402"
	// No document has a router of that name, neither in the spec nor in a rack.
	UnknownRouter Code = "P0403"
	// The word is neither a name in spec.communities nor a well-known community.
	UnknownCommunity Code = "P0404"
	// There is no BFD profile of that name in spec.bfdProfiles.
	UnknownBFD Code = "P0405"
	// No rack is in a zone of that name.
	UnknownZone Code = "P0406"
	// A rack that spec.expect names is in none of the documents. While documents arrive one by one
	// this is what keeps half an inventory from being taken up.
	ExpectNotMet Code = "P0407"
	// An entry stands in a list twice. It counts once.
	EntryTwice Code = "P0408"
	// A BFD profile or a community has a name, and nothing refers to it. Either a reference is missing
	// or mistyped, or it is left from before and can go.
	Unused Code = "P0409"
)

// Machines and what identifies them.
const (
	// Two machines have the same id, so a Node with that providerID could be either.
	ProviderIDTwice Code = "P0501"
	// Two machines have the same systemUUID. Some vendors ship boards that all report one; leave
	// match out for these.
	SystemUUIDTwice Code = "P0502"
	// Two machines have the same alias, so a Node with that providerID could be either.
	AliasTwice Code = "P0503"
	// Two machines stand in one unit of a rack. Blades do; otherwise one of them is wrong.
	UnitTwice Code = "P0504"
	// The machine stands above the top of its rack.
	UnitOutside Code = "P0505"
	// Every machine that is not planned or retired is in maintenance or off, so no VIP and no pod CIDR
	// is announced by anybody.
	NothingInService Code = "P0506"
	// The systemUUID is all zeros or all Fs, which is what boards without one report (SMBIOS, section 7.2.1). It decides nothing,
	// neither in match nor as what a Node reports: the machine is told by its provider ID and its name. Take match from the machine. A
	// Node that has neither of these is told by an alias.
	SystemUUIDAbsent Code = "P0507"
)

// Addresses of machines and routers.
const (
	// Two machines or routers have the same address. Machines that are retired do not count. A
	// router's link-local address is one of its link alone: routers of different racks may have the
	// same.
	AddressTwice Code = "P0601"
	// The address is in none of the subnets of its rack. Either the machine is in another rack or a
	// subnet is missing. Where the rack names none at all, this warns of an address in a subnet of another
	// rack where machines answer for VIPs: this one does not.
	OutsideSubnets Code = "P0602"
	// Two subnets overlap without being the same, so it is not clear which machines reach each other
	// without a router. The same subnet may be in several racks.
	SubnetsOverlap Code = "P0603"
	// A router has two addresses of one family. It may have one of each; two sessions of one family
	// are two routers.
	SameFamily Code = "P0604"
	// No machine or router can be reached at such an address: it is unspecified, loopback,
	// link-local, multicast or reserved.
	NotUnicast Code = "P0605"
	// The address is the first or the last of its IPv4 subnet, which hosts do not have.
	NetworkAddress Code = "P0606"
)

// Pools.
const (
	// Two ranges of pools overlap, so an address would be in both.
	PoolsOverlap Code = "P0701"
	// The pool has an address that a machine, a router or a witness has. A Service with that address
	// would cut it off. Exclude the address or choose another range.
	PoolHoldsHost Code = "P0702"
	// The pool overlaps the pod network.
	PoolHoldsPods Code = "P0703"
	// The reserved address is not in its pool, is excluded from it, or is one that skipFirstLast
	// leaves out, so no Service could get it.
	OutsidePool Code = "P0704"
	// One address is reserved for two Services.
	ReservedTwice Code = "P0705"
	// The excluded addresses are no part of the pool, so one of the two is probably mistyped.
	NothingExcluded Code = "P0706"
	// Every address of the pool is excluded or left out by skipFirstLast, so it gives none.
	PoolEmpty Code = "P0707"
	// The pool lies on a subnet of machines that have routers, and does not say how its VIPs are to be
	// announced. Other hosts of the subnet ask for a VIP by ARP or neighbour discovery: with via: link one
	// machine answers them; with via: bgp nobody does, and the routers alone know the way. Where the
	// machines of the subnet have no router, via: link is the default.
	PoolOnSubnet Code = "P0708"
	// Addresses of this family are never announced: no session carries it, for the machines or their
	// routers have no address of the family.
	FamilyUncarried Code = "P0709"
	// The racks, zones and routers of an advertisement of the pool have no session among them, so it
	// announces VIPs to nobody.
	NowhereToGo Code = "P0710"
	// Routers do not carry such addresses, or the range is larger than any network.
	NotForVIPs Code = "P0711"
	// The aggregate is wider than the pool, so routers send traffic for addresses here that are not
	// the pool's. That can be meant; then this is only a reminder.
	WideAggregate Code = "P0712"
	// An item of the pool's list advertise has no effect, for one before it announces the same prefixes to
	// the same routers for all of its Services, and a prefix is announced with the attributes of the
	// first. Put the narrower one first.
	AdvertiseShadowed Code = "P0713"
	// Every pool has autoAssign: false. A Service that asks neither for a pool nor for an address, as
	// most do, stays pending with the reason PoolNotAutomatic.
	NothingAutomatic Code = "P0714"
	// Every pool has the state disabled, so no Service gets a VIP, and those that have one are not
	// announced.
	AllPoolsDisabled Code = "P0715"
	// Two advertisements of a pool say different things under via. How an address is announced does not
	// depend on the labels of its Service, so all advertisements of a pool say the same. Make two pools.
	ViaDisagrees Code = "P0716"
	// The pool says via: link, and no rack has a subnet that holds an address of it, so no machine is on
	// such a link. Either the subnets of the racks are missing, or the addresses are others.
	LinkWithoutSubnet Code = "P0717"
	// The pool is announced on a subnet that no machine has an address in, so nobody answers for its
	// VIPs there.
	LinkWithoutMachine Code = "P0718"
	// The pool is on a link and holds an address of the subnet that no host has: the network or broadcast
	// address of IPv4, or the one that IPv6 has for all routers. No Service can have it. Exclude it, or say
	// skipFirstLast where the range is the whole subnet.
	PoolHoldsEnds Code = "P0719"
	// The advertisement names routers, and every address of its pool is announced on a link, where no
	// router is told. Racks and zones say which machines may answer.
	RoutersOnLink Code = "P0720"
	// The setting is an attribute of BGP routes, and every address of the pool is announced on a link,
	// without BGP.
	UnusedOnLink Code = "P0721"
	// A witness is asked by ARP or neighbour discovery, so it has to be in a subnet of the rack; one of
	// the spec in one of any rack's. A machine is no witness: it is what the witness tells of.
	BadWitness Code = "P0722"
	// Two racks have one subnet, and say different things under onLink. All machines of a subnet watch
	// each other with the same timers, and ask the same witness.
	OnLinkDiffers Code = "P0723"
	// Machines of the subnet that hear less than half of the others go on only while a witness answers, a
	// host that is always there. Nobody says which, and the inventory has no router in the subnet. Each
	// machine then takes its default gateway, if that is a host of the subnet; here the machines have
	// another subnet as well, so it may be a host of that one. Then of two machines the second never goes
	// on alone. Name a host under onLink.witness.
	LinkWithoutWitness Code = "P0724"
	// Every machine of a subnet watches every other one, with ten packets a second each way unless onLink.bfd
	// says otherwise. That is measured with 32 machines. Have fewer machines on the link, a slower profile, or
	// announce the pool over BGP, where a machine watches its routers alone.
	LinkOfMany Code = "P0725"
	// The pool has addresses that are most likely in the network of machines (the same 24 bits of IPv4, or 64 of IPv6). Their
	// rack has routers, and does not say which subnets it has. Where the network is one, its hosts ask for a VIP by
	// ARP or neighbour discovery, and nobody answers. Say via: bgp in the pool's advertise if the routers alone are to know the way,
	// or name the subnets of the rack; with via: link machines then answer there.
	PoolBesideMachines Code = "P0726"
)

// BGP.
const (
	// The rack's machines have sessions, and neither the rack nor spec.bgp says their AS number.
	NoASN Code = "P0801"
	// The rack's machines have no router, so VIPs are not announced from there. Where the pool's addresses
	// are in the network of the machines, name that under subnets, and they answer for VIPs there.
	NoPeers Code = "P0802"
	// The hold time is under 3 seconds, the least that RFC 4271 allows. For faster detection use BFD.
	// Zero would never notice a dead neighbour.
	ShortHoldTime Code = "P0803"
	// TTL security and multihop are both on. The first takes packets only from directly connected
	// neighbours.
	SecurityMultihop Code = "P0804"
	// The machine has addresses of one family and its routers of the other, so it has no session.
	FamiliesApart Code = "P0805"
	// The router is outside the rack's subnets, or in one that the machine has no address in, and a
	// session between two ASes takes one hop unless multihop says otherwise.
	RouterUnreachable Code = "P0806"
	// LOCAL_PREF is sent within one AS only, and all routers are of another. Use prepend or
	// communities there.
	LocalPrefUnused Code = "P0807"
	// The router's os names a language that has no word for something that its sessions have, so
	// plinth router-config could not write its side. A session that only one end protects stays
	// down. Turn the setting off for that router, or leave os out and write its side by hand.
	CannotWrite Code = "P0808"
	// The BFD profile takes as long as the hold time or longer to find out that a router is gone, so
	// BGP does it first, and BFD is of no use. It takes the interval times the multiplier.
	SlowBFD Code = "P0809"
	// The machines' AS number is a public one, which a registry has given to somebody, and no router of the inventory is of that
	// AS. If it is not yours, take a private one (RFC 6996): where such routes leak, others refuse them, or send you their complaints.
	PublicASN Code = "P0810"
)

// The pod network.
const (
	// The pod network has two prefixes of one family.
	CIDRsOfOneFamily Code = "P0901"
	// A rack's block would be larger than the whole pod network.
	BadRackPrefix Code = "P0902"
	// A machine's block would be larger than that of its rack, or than the whole pod network.
	BadNodePrefix Code = "P0903"
	// The rack's block has no room for another machine. Blocks never move, so give the machine
	// podCIDRs by hand, or make the blocks of racks larger before racks are taken up.
	RackFull Code = "P0904"
	// The block is outside the pod network, or outside its rack's block.
	PodCIDROutside Code = "P0905"
	// Two blocks overlap, so two machines would have the same pod addresses.
	PodCIDRsOverlap Code = "P0906"
	// The list does not have one block for each family of the pod network.
	PodFamilies Code = "P0907"
	// The pod network has addresses of machines, routers or their subnets.
	PodsOnSubnet Code = "P0908"
	// Blocks are given, and there is no pod network. They mean nothing then.
	NoPodNetwork Code = "P0909"
	// A machine keeps the block that it has, for a Node's pod CIDRs cannot change. It gets another
	// when the Node is created anew.
	PodCIDRKept Code = "P0910"
	// The pod network has no room for the block of another rack.
	NetworkFull Code = "P0911"
	// The machine has no address of a family of the pod network, so nobody can reach its pods of that
	// family.
	FamilyUnreachable Code = "P0913"
	// The mode is direct, in which machines of one subnet know the way to each other's pods, and no
	// subnet has all machines. Pods that lie apart do not reach each other unless routers of yours
	// know the way.
	PodsApart Code = "P0914"
	// The port that the tunnel is to have is one that the agent listens at itself.
	VXLANPortTaken Code = "P0915"
	// The tunnel's port and network are given, and the mode is not overlay, the only one with a
	// tunnel.
	VXLANUnused Code = "P0916"
)

// Taking up.
const (
	// The change drops or retires more machines at once than safety.maxRemoved lets go, or gives
	// them another id, which is as much as another machine in the place of each. If it is meant, say
	// so with the annotation plinth.dev/allow-removals on the ConfigMap, or allow the losses by the
	// digest that is printed: plinth allow DIGEST.
	TooManyRemovals Code = "P1001"
	// A machine that nobody mentions any more is held, and somebody else has its address, alias or
	// systemUUID now. Retire it if it is gone.
	HeldLosesClaim Code = "P1002"
	// What is accepted is stored in the cluster in a ConfigMap for each rack and one for what all
	// share, and a ConfigMap holds 1 MiB. Each machine is stored with all that its rack gives it.
	// Split the rack into several, which may share subnets and routers, or shorten names and labels.
	TooLarge Code = "P1003"
	// The id of a machine is another one now, and its name is the same: another machine has its place.
	// The Node of the old one keeps its providerID, which cannot change, and Plinth keeps its labels,
	// taints and addresses no more. Delete the Node once the new machine is in place, and restart the
	// kubelet there: the Node that it makes has the same pod CIDRs. To undo it, write the id that it had:
	// a machine for which no id is written keeps the one in force.
	MachineReplaced Code = "P1004"
	// The annotation plinth.dev/allow-removals lets so many machines go, and this edit does not need
	// it. Left behind, it lets a later mistake pass. Take it away.
	LeaveLeftBehind Code = "P1005"
	// Of ConfigMaps whose names differ only in the hash that kustomize adds, ten letters at the end,
	// the youngest is read, and this one is not: older copies stand there until they are pruned. If
	// an older state is to come back, or both are meant, delete the younger one or rename them.
	CopyPassedOver Code = "P1006"
	// The change would leave VIPs in use that some machine announces without any that does: their
	// pool is shrunk, gone or disabled, or routers, racks, zones or machines are taken from them.
	// Clients would find nobody there. If it is meant, allow the losses by the digest that is
	// printed: plinth allow DIGEST. It lets these losses pass, and no others. To delete the Services
	// first does not let the edit pass by itself: see P1009.
	VIPsUnreachable Code = "P1007"
	// The change takes more machines out of service at once than safety.maxDrained lets go. If it is
	// meant, do it in parts, or allow the losses by the digest that is printed: plinth allow DIGEST.
	TooManyDrained Code = "P1008"
	// The same edit was refused before for what it would have taken away, and by now that is lost
	// in another way, as by a machine that died. It stays refused until it is changed or allowed: an
	// edit must not come into force at a moment that nobody chose. So it is where the Services are
	// gone that would have lost their VIPs: run plinth allow with the digest that is printed, or
	// change the edit in any way, and it passes.
	StaysRefused Code = "P1009"
	// The inventory says safety.paused: true. What is in force stays, whatever else is written, until
	// that is taken away.
	Paused Code = "P1010"
	// The change gives sessions other terms, as another AS, password, TTL or address, which ends them; or it
	// gives the machines of a rack another router in place of all that they had. They were tried on one
	// machine for each router first, and did not all come up within safety.sessionTrial. Those machines
	// have their former terms again, and no other session was touched. Correct the terms, or change the
	// router first; plinth explain knows the cause that is named. If all sessions are to change at once,
	// as when the router changes in the same minute: plinth allow DIGEST.
	TrialFailed Code = "P1011"
	// The change would have VIPs in use announced on a link that are announced over BGP, or the other
	// way round, and their pool does not ask for it: a rack got subnets that hold them, or lost these, or its
	// routers. Clients that find the way by their router do not ask on the wire, and the other way
	// round. Say via in the pool's advertise: bgp leaves them where they are, link is what is asked
	// for. Or allow it by the digest that is printed: plinth allow DIGEST.
	VIPsSwitched Code = "P1012"
	// What the change leads to could not be stored so that this version, and every older one that reads the
	// same format, reads it again as the same. Nothing of it was written, and what is in force stays. It
	// is a mistake in Plinth: please report it with the edit. Another edit that leads to the same, in
	// smaller steps, may pass.
	NotReadBack Code = "P1013"
	// A machine that is new by its name has the board or the addresses of one that nobody mentions any more: it
	// is taken for the same machine under another name. Its Node keeps its name until the kubelet registers under
	// another, and its providerID, pod CIDRs and VIPs in any case. If it is another machine, write an id for it.
	MachineRenamed Code = "P1014"
	// The change would leave Nodes that are machines of the inventory without one, or such that each could be any
	// of several: by its systemUUID and name, or an alias. A providerID that Plinth gave counts alone. Their agents would go
	// on as the machines that they were, with the endpoints of the day, and follow no other edit. Mend the match or the id
	// that is named. If it is meant: plinth allow DIGEST.
	NodesLost Code = "P1015"
	// The change would keep pods from reaching pods of other Nodes that they reach: podNetwork is gone though no other
	// program is known to route pods, its mode cannot reach machines of other subnets, or routers are
	// taken from racks. If it is meant, as when a CNI routes pods from now on: plinth allow DIGEST.
	PodsCut Code = "P1016"
	// The change would give a pool addresses that the cluster has: pods, Nodes or Services. No VIP is given from there, and each machine
	// answers packets to addresses of pools that nobody has, in place of its router. Nodes and their pods are left out of that by a
	// label, which the controller gives; of a Node that joins later they are out of reach until it bears it. Take the addresses out of the pool, or list them in its exclude.
	PoolTakesCluster Code = "P1017"
	// ConfigMaps whose names differ only in the hash that kustomize adds, ten letters at the end, were created in the same second,
	// as when a backup is put back, and say different things. Which is the younger one cannot be known, and none of them was found
	// to be what is in force: that stays. Delete all but the one that is meant.
	CopiesOfOneAge Code = "P1018"
	// A pool has addresses that the cluster has: of the pods of a Node, of a Node, be it a machine of the inventory or not, of a
	// ServiceCIDR, or of the externalIPs of a Service. Services are never given VIPs from there, but externalIPs that are
	// reserved for one; those that were given before stay, and their Services are told. Take the addresses out of the pool, or list them in its exclude. plinth validate --cluster says it.
	PoolHoldsCluster Code = "P1019"
	// The machine's match is a system UUID that several Nodes of the cluster report, as of boards that leave the factory with one
	// number. It decides nothing: the machine is told by its provider ID and its name. Take match from the machine. plinth
	// validate --cluster says it; plinth status says it of the Node.
	SharedMatch Code = "P1020"
)
