package edit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"plinth.dev/plinth/inventory"
)

// AnnotationAllow is on a ConfigMap of the inventory, or on the one that lists what was accepted:
// the digests of losses that may happen, comma separated.
const AnnotationAllow = "plinth.dev/allow"

// AnnotationAllowRemovals is on a ConfigMap of the inventory: how many machines may be dropped or retired at once.
const AnnotationAllowRemovals = "plinth.dev/allow-removals"

// Losses holds the machines, VIPs, Nodes, pods and addresses that a change takes away. Every list is sorted.
type Losses struct {
	Removed     []string // machines that it drops, retires, or has another one in the place of
	Drained     []string // machines that leave the state active and stay in the inventory
	Unreachable []LostVIP
	Switched    []SwitchedVIP
	InUse       int // VIPs, of which Unreachable and Switched are some
	Nodes       []LostNode
	Pods        []CutPods
	Resting     []CutPods // that are, since a machine is put in maintenance: no loss, for that is what it says
	Taken       []inventory.TakenAddress
}

// LostVIP is a VIP in use that some machine announces, and none would any more.
type LostVIP struct {
	Addr     netip.Addr
	Services []string // namespace/name
	Why      string   // as "no pool has it"
}

// SwitchedVIP is a VIP in use that is announced over BGP and would be on a link, or the other way
// round, though it was not asked for. Clients that reach it one way may not reach it the other.
type SwitchedVIP struct {
	Addr     netip.Addr
	Services []string // namespace/name
	From, To string   // as "BGP" and "the link 192.168.1.0/24"
}

// LostNode is a Node that is a machine, and would be none, or any of several.
type LostNode struct{ Node, Machine, Why string }

// CutPods are pods of two racks, or of one, of which some reach others, and would not any more.
type CutPods struct {
	From, To string
	Pairs    int    // of machines, one way
	Why      string // as "IPv4: NodeOfOtherSubnet"
}

// Allowance holds the removals and losses that are allowed.
type Allowance struct {
	Removals int      // machines that may go, whatever safety.maxRemoved says
	Digests  []string // of losses that may happen
}

// And returns the union of two allowances.
func (a Allowance) And(b Allowance) Allowance {
	return Allowance{max(a.Removals, b.Removals), append(slices.Clone(a.Digests), b.Digests...)}
}

// Equal reports whether both allow the same.
func (a Allowance) Equal(b Allowance) bool {
	return a.Removals == b.Removals && slices.Equal(a.Digests, b.Digests)
}

// AllowedBy reads the digests in a value of [AnnotationAllow].
func AllowedBy(written string) []string {
	return strings.FieldsFunc(written, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// LossesOf returns the machines that next takes away from the inventory in force; next is the result of [Admit].
// The losses of a cluster depend on more than an inventory, and are for the caller to add: see [Losses.In].
func LossesOf(next, inForce *inventory.Inventory) Losses {
	var losses Losses
	if inForce == nil {
		return losses
	}
	for old := range inForce.Machines() {
		now, mentioned := next.Same(old)
		retires := !mentioned || now.State == inventory.StateRetired
		drops := now.Held && !old.Held
		switch {
		case old.State != inventory.StateRetired && (retires || drops || replaces(now, old)):
			losses.Removed = append(losses.Removed, old.Name)
		case old.State == inventory.StateActive && now.State != inventory.StateActive && !now.Held:
			losses.Drained = append(losses.Drained, old.Name)
		}
	}
	slices.Sort(losses.Removed)
	slices.Sort(losses.Drained)
	return losses
}

// In are the losses with what is said of a cluster: of VIPs, Nodes, pods and addresses there.
func (l Losses) In(cluster Losses) Losses {
	cluster.Removed, cluster.Drained = l.Removed, l.Drained
	return cluster
}

// Refuse returns an error for each limit of the inventory in force that the losses exceed,
// unless they are allowed, and the digest that would allow them; empty: nothing is exceeded.
func (l Losses) Refuse(inForce *inventory.Inventory, allowance Allowance) (problems inventory.Problems, digest string) {
	if inForce == nil {
		return nil, ""
	}
	var beyond Losses
	for _, limit := range l.limits(inForce, allowance.Removals) {
		if n := len(limit.lost); n > limit.may() {
			limit.mark(&beyond)
			problems = append(problems, limit.problem())
		}
	}
	if len(problems) == 0 {
		return nil, ""
	}
	digest = beyond.Digest()
	if slices.Contains(allowance.Digests, digest) {
		return nil, digest
	}
	for i := range problems {
		problems[i].Accepted += ", or if it is meant: plinth allow " + digest
	}
	return problems, digest
}

// NeedLeave reports whether more machines go than the inventory in force lets go by itself.
func (l Losses) NeedLeave(inForce *inventory.Inventory) bool {
	return inForce != nil && len(l.Removed) > maxRemoved(inForce.Safety).Of(inForce.Size())
}

// PausedProblem returns the problem of an edit with spec.safety.paused.
func PausedProblem() inventory.Problem {
	return inventory.Problem{
		Severity: inventory.Error, Code: inventory.Paused, Path: "spec.safety.paused", Value: "true",
		Message: "keeps what is in force, whatever else is written", Accepted: "false, or no such key, to take up what is written",
	}
}

// brake is one limit, and what is held against it.
type brake struct {
	code    inventory.Code
	path    string
	message string // of how many are lost, of how many, and how many may be
	key     string
	limit   inventory.Limit
	instead string // of the limit: what would be accepted
	of      int
	allowed int // whatever the limit says
	lost    []string
	mark    func(beyond *Losses)
}

// maxRemoved returns the limit on removed machines: that of the inventory, or else the default.
func maxRemoved(s inventory.Safety) inventory.Limit {
	return s.MaxRemoved.Or(inventory.LimitOneOrPercent(5))
}

// limits returns the limits of the inventory in force.
func (l Losses) limits(inForce *inventory.Inventory, removals int) []brake {
	safety, machines := inForce.Safety, inForce.Size()
	return []brake{
		{
			code: inventory.TooManyRemovals, path: "spec.racks", message: "drops, retires or gives another id to %d of %d machines at once, and %d may go",
			key: "maxRemoved", limit: maxRemoved(safety), of: machines, allowed: removals, lost: l.Removed, mark: func(b *Losses) { b.Removed = l.Removed },
		},
		{
			code: inventory.TooManyDrained, path: "spec.racks", message: "takes %d of %d machines out of service at once, and %d may be",
			key: "maxDrained", limit: safety.MaxDrained.Or(inventory.LimitOneOrPercent(25)), of: machines, lost: l.Drained, mark: func(b *Losses) { b.Drained = l.Drained },
		},
		{
			code: inventory.VIPsUnreachable, path: "spec.pools", message: "takes %d of %d VIPs in use from everybody, and %d may be",
			key: "maxUnreachable", limit: safety.MaxUnreachable.Or(inventory.LimitNumber(0)), of: l.InUse, lost: inventory.Strings(l.Unreachable), mark: func(b *Losses) { b.Unreachable = l.Unreachable },
		},
		{
			code: inventory.VIPsSwitched, path: "spec.pools", message: "switches %d of %d VIPs in use between BGP and a link without a word of via, and %d may be",
			limit: inventory.LimitNumber(0), of: l.InUse, lost: inventory.Strings(l.Switched), mark: func(b *Losses) { b.Switched = l.Switched },
			instead: "advertise.via in the pool, which says what is meant",
		},
		{
			code: inventory.NodesLost, path: "spec.racks", message: "leaves %[1]d Nodes that are machines of the inventory without one", limit: inventory.LimitNumber(0),
			lost: inventory.Strings(l.Nodes), mark: func(b *Losses) { b.Nodes = l.Nodes }, instead: "names, ids and matches by which each Node is one machine",
		},
		{
			code: inventory.PodsCut, path: "spec.podNetwork", message: "keeps pods from reaching each other that do, between racks %[1]d times", limit: inventory.LimitNumber(0),
			lost: inventory.Strings(l.Pods), mark: func(b *Losses) { b.Pods = l.Pods }, instead: "a way for the pods",
		},
		{
			code: inventory.PoolTakesCluster, path: "spec.pools", message: "gives pools addresses that the cluster has, %[1]d times", limit: inventory.LimitNumber(0),
			lost: inventory.Strings(l.Taken), mark: func(b *Losses) { b.Taken = l.Taken }, instead: "pools beside them, or exclude",
		},
	}
}

// may returns the number that may be lost.
func (b brake) may() int { return max(b.limit.Of(b.of), b.allowed) }

// problem returns the problem of an exceeded limit.
func (b brake) problem() inventory.Problem {
	count := len(b.lost)
	problem := inventory.Problem{
		Severity: inventory.Error, Code: b.code, Path: b.path,
		Message:  fmt.Sprintf(b.message, count, b.of, b.may()) + ": " + inventory.Abridged(b.lost),
		Accepted: fmt.Sprintf("safety.%s (%s) of the inventory in force", b.key, b.limit),
	}
	if b.instead != "" {
		problem.Accepted = b.instead
	}
	if b.code == inventory.TooManyRemovals {
		problem.Accepted += fmt.Sprintf(", or the annotation plinth.dev/allow-removals: \"%d\"", count)
	}
	return problem
}

// Digest names the losses, whatever edit they come from: the same machines and addresses have
// the same one.
func (l Losses) Digest() string {
	sum := sha256.New()
	for _, name := range l.Removed {
		fmt.Fprintln(sum, "removed", name)
	}
	for _, name := range l.Drained {
		fmt.Fprintln(sum, "drained", name)
	}
	for _, vip := range l.Unreachable {
		fmt.Fprintln(sum, "unreachable", vip.Addr)
	}
	for _, vip := range l.Switched {
		fmt.Fprintln(sum, "switched", vip.Addr)
	}
	for _, n := range l.Nodes {
		fmt.Fprintln(sum, "node", n.Node)
	}
	for _, p := range l.Pods {
		fmt.Fprintln(sum, "pods", p.From, p.To)
	}
	for _, a := range l.Taken {
		fmt.Fprintln(sum, "taken", a.Pool, a.Of)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// String names the Services, the VIP that they lose, and the reason.
func (v LostVIP) String() string {
	return fmt.Sprintf("service %s loses %s: %s", strings.Join(v.Services, ", "), v.Addr, v.Why)
}

// String names the way by which the VIP would be announced, and the one by which it is.
func (v SwitchedVIP) String() string {
	return fmt.Sprintf("%s of service %s goes from %s to %s", v.Addr, strings.Join(v.Services, ", "), v.From, v.To)
}

// String names the machine that the Node loses, and the reason.
func (n LostNode) String() string {
	return fmt.Sprintf("node %s is not machine %s any more: %s", n.Node, n.Machine, n.Why)
}

// String names the pods that do not reach each other, and the reason.
func (p CutPods) String() string {
	return fmt.Sprintf("pods of rack %s do not reach those of rack %s any more, of %d pairs of machines: %s", p.From, p.To, p.Pairs, p.Why)
}

// leaveLeftBehind warns of leave that an edit does not need: with it any other would pass.
func leaveLeftBehind(removals int) inventory.Problem {
	return inventory.Problem{
		Severity: inventory.Warning, Code: inventory.LeaveLeftBehind, Path: "metadata.annotations[" + AnnotationAllowRemovals + "]",
		Message: "is not needed, and lets as many machines go with any edit to come", Value: strconv.Itoa(removals), Accepted: "no such annotation",
	}
}
