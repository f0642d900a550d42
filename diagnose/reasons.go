package diagnose

// Reason is the name of a finding that a summary of a cluster makes by itself. It has a row in docs/reference/reasons.md. Other findings have
// the reason of whoever found them out: the controller, an agent, the plan.
type Reason string

// Of the controller, and of what people wrote.
const (
	NoLeader             Reason = "NoLeader"             // no controller leads
	LeaseOfOther         Reason = "LeaseOfOther"         // another program's controller has the lease
	ControllerNotRunning Reason = "ControllerNotRunning" // a pod of the controller does not run
	VersionsDiffer       Reason = "VersionsDiffer"       // programs of Plinth are of different versions
	NoInventory          Reason = "NoInventory"          // none is in force
	InventoryUnreadable  Reason = "InventoryUnreadable"  // what was accepted cannot be read
	InventoryUnread      Reason = "InventoryUnread"      // nobody has looked at the newest edit
)

// Of machines and Nodes.
const (
	MachineHeld     Reason = "MachineHeld"     // the machine is not in the inventory any more
	NodeNotReady    Reason = "NodeNotReady"    // by its kubelet's word, or its silence
	AgentMissing    Reason = "AgentMissing"    // no agent is on the Node, or none has ever said anything
	AgentNotRunning Reason = "AgentNotRunning" // a pod of an agent does not run
	AgentSilent     Reason = "AgentSilent"     // the agent has said nothing for much longer than its kubelet
	KernelSettings  Reason = "KernelSettings"  // settings of a kernel keep packets from pods

	PasswordNotTaken Reason = "PasswordNotTaken" // no session came up with the new password of a Secret
)

// Of Services and pools.
const (
	ServiceUnanswered Reason = "ServiceUnanswered" // no controller has said anything to the Service
	PoolNearlyFull    Reason = "PoolNearlyFull"    // little of a pool is free
)

// Reasons that others write, too: package source in Events on what carries the inventory, package node on its status, package
// installation on a lease.
const (
	reasonOtherInstallation  = "OtherInstallation"
	reasonRefused            = "InventoryRefused"
	reasonOnTrial            = "InventoryOnTrial"
	reasonNotStored          = "InventoryNotStored"
	reasonNewerFormat        = "InventoryNewerFormat"
	reasonMachineWithoutNode = "MachineWithoutNode"
)
