package inventory

// MismatchReason is the reason why a Node is no machine of the inventory, or the kind of difference between it and its
// machine there. It is the reason of an Event on the Node, and has a row in docs/reference/cloud-provider.md.
type MismatchReason string

// Why a Node is no machine of the inventory.
const (
	NoMachine    MismatchReason = "NoMachine"       // the inventory has none for it
	Ambiguous    MismatchReason = "Ambiguous"       // it cannot be told which
	OtherMachine MismatchReason = "MachineReplaced" // another machine, or none, is in the place of the Node's
)

// The ways in which a Node may not fit its machine.
const (
	SystemUUIDDiffers   MismatchReason = "SystemUUIDDiffers"   // the kubelet runs on another board
	SystemUUIDShared    MismatchReason = "SystemUUIDShared"    // the number by which the inventory knows the board is on several
	StillOff            MismatchReason = "StillOff"            // by the inventory, and the kubelet is ready
	StillOutOfService   MismatchReason = "StillOutOfService"   // by the taint, and the kubelet is ready
	NotKnownToBeOff     MismatchReason = "NotKnownToBeOff"     // the taint says so, the inventory does not
	VolumesStayAttached MismatchReason = "VolumesStayAttached" // to a machine that is off
	Unexpected          MismatchReason = "Unexpected"          // the machine is planned or retired, and should have no Node
	NodeIPUnknown       MismatchReason = "NodeIPUnknown"       // the inventory does not have the kubelet's --node-ip: the stock controller leaves the Node tainted
	PodCIDRDiffer       MismatchReason = "PodCIDRDiffer"       // the Node has other pod CIDRs than the inventory gives its machine
)

// MismatchReasons are all of them.
var MismatchReasons = []MismatchReason{
	NoMachine, Ambiguous, OtherMachine,
	SystemUUIDDiffers, SystemUUIDShared, StillOff, StillOutOfService, NotKnownToBeOff, VolumesStayAttached, Unexpected, NodeIPUnknown, PodCIDRDiffer,
}
