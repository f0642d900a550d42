package inventory

import (
	"net/netip"
	"strings"
	"time"
)

// APIVersion and Kind are the only type of document that an inventory is made of.
const (
	APIVersion = "plinth.dev/v1alpha1"
	Kind       = "Inventory"
)

// ProviderScheme is the scheme of the provider IDs that Plinth gives: plinth://<machine id>.
const ProviderScheme = "plinth"

// Inventory is one whole, valid datacenter. Every slice is sorted by name unless
// its order means something to the person who wrote it (addresses, machines of a rack).
type Inventory struct {
	Name        string
	Region      string // metadata.name where none is given
	Expect      Expect
	Safety      Safety
	NodeLabels  map[string]string // of every Node
	BGP         BGP
	BFDProfiles []BFDProfile
	Communities map[string]Community // by the name that people gave them
	PodNetwork  PodNetwork           // zero: a CNI routes pods
	Routers     []Router             // of the spec and of the racks
	OnLink      OnLink
	Pools       []Pool
	Storage     []Storage
	Racks       []Rack

	index     *index              // see find.go
	Positions map[string]Position // of racks and machines, by their path
	trying    *trying             // terms of another inventory that are tried; nil: none are
}

// Expect names the racks and pools that a set of documents must have before it is accepted.
type Expect struct {
	Racks []string
	Pools []string
}

// Safety holds the limits on the losses of one change, unless these are allowed; see package edit.
type Safety struct {
	MaxRemoved     Option[Limit] // machines that it drops, retires or replaces; default: the larger of 1 and 5%
	MaxUnreachable Option[Limit] // VIPs in use that no machine would announce any more; default: 0
	MaxDrained     Option[Limit] // machines that leave the state active; default: the larger of 1 and 25%
	Paused         bool          // nothing is taken up, whatever it says
	SessionTrial   Option[time.Duration]
}

// BGP holds what every session has unless its rack or router says otherwise.
type BGP struct {
	ASN     ASN // of the machines
	Session SessionOptions
}

// Option is a setting that may be left out.
type Option[T comparable] struct {
	Value T
	Set   bool
}

// Some is a setting that was given.
func Some[T comparable](v T) Option[T] { return Option[T]{Value: v, Set: true} }

// Or returns the setting, or d where none was given.
func (o Option[T]) Or(d T) T {
	if o.Set {
		return o.Value
	}
	return d
}

// SessionOptions are the settings of a BGP session that the spec gives for all,
// and a rack or router may override. A router's word wins over its rack's, a
// rack's over the spec's.
type SessionOptions struct {
	HoldTime          Option[time.Duration] // RFC 4271, section 4.2; at least 3 s
	RestartTime       Option[time.Duration] // RFC 4724; 0: graceful restart is off
	TTLSecurity       Option[bool]          // RFC 5082
	Multihop          Option[uint8]         // TTL; 0: directly connected
	BFD               Option[string]        // name of a BFDProfile; empty: off
	Password          Option[SecretKey]     // RFC 2385
	AdvertisePodCIDRs Option[bool]
	Learn             Option[Learn]
}

// SecretKey names one key of a Secret in Plinth's namespace.
type SecretKey struct{ Secret, Key string }

// PasswordIn returns the password in a Secret's value or in the file that it is made
// from. One line break at the end is an editor's, and no part of it.
func PasswordIn(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// Learn is the set of routes that a machine accepts from a router.
type Learn string

// The routes that can be learned.
const (
	LearnNothing Learn = "none"    // the default: every route of the router's is rejected
	LearnDefault Learn = "default" // 0.0.0.0/0 and ::/0 alone
)

// BFDProfile is a set of BFD timers (RFC 5880).
type BFDProfile struct {
	Name       string
	Interval   time.Duration // both ways
	Multiplier uint8         // missed packets until the session is down
}

// Mode is the way by which pods of different machines reach each other.
type Mode string

// The modes of a pod network.
const (
	ModeNone    Mode = ""        // a CNI does it
	ModeDirect  Mode = "direct"  // kernel routes between nodes of one subnet
	ModeFabric  Mode = "fabric"  // other subnets are reached through the routers
	ModeOverlay Mode = "overlay" // other subnets are reached through a VXLAN device
)

// PodNetwork holds the blocks from which racks and machines carve their pod CIDRs, and how
// pods reach each other. Its zero value means that a CNI does both.
type PodNetwork struct {
	Mode       Mode
	CIDRs      []netip.Prefix // at most one per family
	RackPrefix PrefixLengths
	NodePrefix PrefixLengths
	VXLAN      VXLAN
}

// VXLAN holds the port and the VNI that identify the packets of one tunnel (RFC 7348). Both ends have the same.
type VXLAN struct {
	Port uint16 // of UDP
	VNI  uint32 // 24 bits
}

// DefaultVXLAN has the port that IANA gave to VXLAN.
var DefaultVXLAN = VXLAN{Port: 4789, VNI: 114}

// PrefixLengths is a prefix length per family; 0 means not given.
type PrefixLengths struct{ IPv4, IPv6 int }

// For returns the length for the family of a.
func (p PrefixLengths) For(a netip.Addr) int {
	if a.Is4() {
		return p.IPv4
	}
	return p.IPv6
}

// Router is a BGP neighbour of machines.
type Router struct {
	Name      string
	Rack      string       // empty: of the spec
	Addresses []netip.Addr // one, or one per family; a session goes to each
	ASN       ASN
	Port      uint16
	OS        string // what router-config writes when it is not told otherwise
	Session   SessionOptions
}

// Pool is a set of addresses that Services may get.
type Pool struct {
	Name          string
	Ranges        []Range // sorted, disjoint; Exclude is still inside
	Exclude       []Range
	Reserved      []Reservation // sorted by address
	AutoAssign    bool
	SkipFirstLast bool
	Priority      int
	Namespaces    []string // with NamespaceSelectors, those whose Services may use it; both empty: all
	// NamespaceSelectors are of labels of Namespaces: what one of them matches is as if it were in Namespaces.
	NamespaceSelectors []Selector
	Selectors          []Selector // of Services, of which one has to match; empty: all
	State              PoolState
	Advertise          []Advertise // one at least; see [Advertise]
	Via                Via         // as it was written; empty: none was written
	// Links are the subnets that addresses of the pool are announced on, in place of BGP, sorted; see [Inventory.LinkSubnet].
	Links []netip.Prefix
}

// Range is an inclusive range of addresses of one family. It prints as a prefix
// where it is one, else as "first-last". Only a range that was written as a prefix has a network and a
// broadcast address for skipFirstLast to skip.
type Range struct {
	First, Last netip.Addr
	Prefix      bool // written as a prefix
}

// Reservation keeps an address for a Service that need not exist yet.
type Reservation struct {
	Addr      netip.Addr
	Namespace string
	Name      string
}

// Advertise holds the places where VIPs of a pool are announced, and their attributes there. Of several
// that a pool has, all that select a Service and fit a session count there. Each prefix is announced once, with
// the attributes of the first of them that has it.
type Advertise struct {
	Selector    Selector // of Services
	Racks       []string // empty, with Zones and Routers: everywhere
	Zones       []string
	Routers     []string
	Aggregate   PrefixLengths
	LocalPref   uint32 // RFC 4271, section 5.1.5; sent on iBGP sessions only
	Communities Communities
	Prepend     uint8
	Weighted    bool // link bandwidth in proportion to the ready local endpoints
}

// Storage is a place that volumes live in. Of NFSServer, ISCSIPortal and
// CSIDriver exactly one is given.
type Storage struct {
	Name          string
	Rack          string
	NFSServer     string
	ISCSIPortal   string
	CSIDriver     string
	CSIAttributes map[string]string // all must be among the volume's
}

// Rack is a place with machines, subnets and routers of its own.
type Rack struct {
	Name     string
	Zone     string // the rack's name where none is given
	Row      string
	Units    int // 0: not told
	ASN      ASN // of its machines; the spec's where none is given
	Subnets  []netip.Prefix
	Peers    []string       // names of routers, sorted; every default applied
	PodCIDRs []netip.Prefix // one per family of the pod network; see Carve
	Carved   bool           // PodCIDRs come from Carve, not from a person's hand
	State    State
	Session  SessionOptions
	OnLink   OnLink
	Machines []Machine // in the order in which they were written
	// Neighbours are the other racks that share an entry of Subnets, sorted. They are told
	// in a [Inventory.Slice] only, where those racks themselves are not.
	Neighbours []string
	// Links are the links that a neighbour is on as well. They are told there only, too.
	Links []Link
}

// Machine is one machine, and the Kubernetes Node that runs on it.
type Machine struct {
	Name              string // of the Node
	ID                string // of the provider ID; the name where none is given, see Admit
	OwnID             bool   // the ID was written
	Rack              string
	Held              bool // no longer mentioned by anybody; kept as it was, see Admit
	SystemUUID        UUID // zero: not matched
	Aliases           []string
	Unit              int // 0: not told
	Type              string
	Addresses         []netip.Addr // in order of preference
	ExternalAddresses []netip.Addr
	Hostname          string
	PodCIDRs          []netip.Prefix // one per family of the pod network; see Carve
	Carved            bool           // PodCIDRs come from Carve, not from a person's hand
	Labels            map[string]string
	Taints            []Taint
	OwnState          State // as it was written
	State             State // its own, or its rack's where that is the graver one
	Reason            string
}

// Taint is a taint of a Node.
type Taint struct{ Key, Value, Effect string }

// ProviderID returns the spec.providerID of this machine's Node.
func (m Machine) ProviderID() string { return ProviderScheme + "://" + m.ID }
