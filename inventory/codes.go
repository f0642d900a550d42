package inventory

// Code is the stable name of a kind of problem: P and four digits. Each has a
// page in docs/reference/problems.
type Code string

// Documents: what stands in a file or in a key of a ConfigMap.
const (
	BadYAML        Code = "P0101"
	BadDocument    Code = "P0102"
	BadAPIVersion  Code = "P0103"
	BadKind        Code = "P0104"
	OtherInventory Code = "P0105"
	NoDocument     Code = "P0106"
	TooManyAliases Code = "P0107"
	BadTag         Code = "P0108"
)

// Shape: keys and the kinds of their values.
const (
	UnknownKey  Code = "P0201"
	KeyTwice    Code = "P0202"
	WrongType   Code = "P0203"
	Missing     Code = "P0204"
	GivenTwice  Code = "P0205"
	Conflicting Code = "P0206"
)

// Values.
const (
	BadName        Code = "P0301"
	BadAddress     Code = "P0302"
	BadPrefix      Code = "P0303"
	HostBits       Code = "P0304"
	BadRange       Code = "P0305"
	BadASN         Code = "P0306"
	FloatASN       Code = "P0307"
	BadDuration    Code = "P0308"
	OutOfRange     Code = "P0309"
	UnknownWord    Code = "P0310"
	BadCommunity   Code = "P0311"
	BadLabel       Code = "P0312"
	ReservedLabel  Code = "P0313"
	BadTaint       Code = "P0314"
	BadUUID        Code = "P0315"
	BadAlias       Code = "P0316"
	InlinePassword Code = "P0317"
	BadLimit       Code = "P0318"
	BadSelector    Code = "P0319"
	BadHostname    Code = "P0320"
	BadID          Code = "P0321"
	BadService     Code = "P0322"
	BadText        Code = "P0323"
)

// Names that are used twice or not at all.
const (
	NameTwice        Code = "P0401"
	UnknownRack      Code = "P0402"
	UnknownRouter    Code = "P0403"
	UnknownCommunity Code = "P0404"
	UnknownBFD       Code = "P0405"
	UnknownZone      Code = "P0406"
	ExpectNotMet     Code = "P0407"
	EntryTwice       Code = "P0408"
)

// Machines and what identifies them.
const (
	ProviderIDTwice Code = "P0501"
	SystemUUIDTwice Code = "P0502"
	AliasTwice      Code = "P0503"
	UnitTwice       Code = "P0504"
	UnitOutside     Code = "P0505"
	NoReason        Code = "P0506"
)

// Addresses of machines and routers.
const (
	AddressTwice   Code = "P0601"
	OutsideSubnets Code = "P0602"
	SubnetsOverlap Code = "P0603"
	SameFamily     Code = "P0604"
	NotUnicast     Code = "P0605"
	NetworkAddress Code = "P0606"
)

// Pools.
const (
	PoolsOverlap    Code = "P0701"
	PoolHoldsHost   Code = "P0702"
	PoolHoldsPods   Code = "P0703"
	OutsidePool     Code = "P0704"
	ReservedTwice   Code = "P0705"
	NothingExcluded Code = "P0706"
	PoolEmpty       Code = "P0707"
	PoolOnSubnet    Code = "P0708"
	FamilyUncarried Code = "P0709"
	NowhereToGo     Code = "P0710"
	NotForVIPs      Code = "P0711"
	WideAggregate   Code = "P0712"
)

// BGP.
const (
	NoASN             Code = "P0801"
	NoPeers           Code = "P0802"
	ShortHoldTime     Code = "P0803"
	SecurityMultihop  Code = "P0804"
	FamiliesApart     Code = "P0805"
	RouterUnreachable Code = "P0806"
	LocalPrefUnused   Code = "P0807"
)

// The pod network.
const (
	CIDRsOfOneFamily  Code = "P0901"
	BadRackPrefix     Code = "P0902"
	BadNodePrefix     Code = "P0903"
	RackFull          Code = "P0904"
	PodCIDROutside    Code = "P0905"
	PodCIDRsOverlap   Code = "P0906"
	PodFamilies       Code = "P0907"
	PodsOnSubnet      Code = "P0908"
	NoPodNetwork      Code = "P0909"
	PodCIDRKept       Code = "P0910"
	NetworkFull       Code = "P0911"
	PodCIDRWrongSize  Code = "P0912"
	FamilyUnreachable Code = "P0913"
)

// Taking up.
const (
	TooManyRemovals Code = "P1001"
	HeldLosesClaim  Code = "P1002"
)
