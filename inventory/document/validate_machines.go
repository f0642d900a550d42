package document

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// machineChecks are the checks of what machines, their Nodes and volumes have.
type machineChecks struct{ *validation }

// identities refuses what would make one Node mean two machines.
func (v machineChecks) identities() {
	machines := v.raw.allMachines()
	ids := make(map[string]*yaml.Node, len(machines))
	uuids := make(map[string]*yaml.Node, len(machines))
	aliases := map[string]*yaml.Node{}
	for _, machine := range machines {
		if n := cmp.Or(machine.ID.node, machine.Name.node); n != nil {
			v.identity(ids, machine, n)
		}
		switch scalar := machine.Match.SystemUUID; {
		case !scalar.given():
		case inventory.ReportedUUID(scalar.v).IsZero():
			v.refuse(scalar.node, refusal{code: inventory.SystemUUIDAbsent, severity: inventory.Warning, message: "is what boards without a system UUID report, and decides nothing",
				accepted: "no match: the machine is told by its provider ID and its name"})
		default:
			v.claim(uuids, scalar.v, scalar.node, refusal{code: inventory.SystemUUIDTwice, message: "is the systemUUID of another machine too", accepted: "a systemUUID that one machine reports"})
		}
		for _, a := range machine.Aliases.v {
			v.claim(aliases, a.v, a.node, refusal{code: inventory.AliasTwice, message: "is the alias of another machine too", accepted: "a providerID that means one machine"})
		}
	}
}

// identity refuses an ID that another machine has. That two machines of one
// name have one ID is said elsewhere.
func (v machineChecks) identity(ids map[string]*yaml.Node, m *rawMachine, n *yaml.Node) {
	id := m.ID.or(m.Name.v)
	if first, taken := ids[id]; taken && !m.ID.given() && first.Value == m.Name.v {
		return
	}
	v.claim(ids, id, n, refusal{code: inventory.ProviderIDTwice, value: id, message: "is the providerID of another machine too",
		accepted: "an id that one machine has, such as its serial number"})
}

// units refuses two machines in one unit, and machines above their rack.
func (v machineChecks) units() {
	for rack := range v.raw.Racks.each() {
		seen := map[string]*yaml.Node{}
		for m := range rack.Machines.each() {
			scalar := m.Unit
			if !scalar.given() || m.State.v == inventory.StateRetired {
				continue
			}
			v.claim(seen, strconv.Itoa(scalar.v), scalar.node, refusal{code: inventory.UnitTwice, severity: inventory.Warning, message: "another machine of the rack stands in that unit too",
				accepted: "one machine in each unit", suggestion: nextName(strconv.Itoa(scalar.v), rack.hasUnit), example: true})
			if rack.Units.given() && scalar.v > rack.Units.v {
				v.refuse(scalar.node, refusal{code: inventory.UnitOutside, message: fmt.Sprintf("is above the top of the rack, which has %s", unitsOf(rack.Units.v)),
					accepted: fmt.Sprintf("1 to %d", rack.Units.v), suggestion: strconv.Itoa(rack.Units.v)}, rack.Units.node)
			}
		}
	}
}

func unitsOf(n int) string {
	if n == 1 {
		return "1 unit"
	}
	return strconv.Itoa(n) + " units"
}

// hasUnit reports whether a machine stands in the unit.
func (r *rawRack) hasUnit(unit string) bool {
	return slices.ContainsFunc(r.Machines.v, func(m rawMachine) bool { return strconv.Itoa(m.Unit.v) == unit })
}

// taints refuses a taint that is there twice, and those that Kubernetes or Plinth keep.
func (v machineChecks) taints() {
	for _, m := range v.raw.allMachines() {
		seen := map[string]*yaml.Node{}
		for _, taint := range m.Taints.v {
			if !taint.Key.given() || !taint.Effect.given() {
				continue
			}
			v.claim(seen, taint.Key.v+":"+taint.Effect.v, taint.Key.node, refusal{code: inventory.BadTaint, message: "is there twice with one effect", accepted: "each key and effect once"})
			if state := taintOwners[taint.Key.v]; state != "" {
				v.refuse(taint.Key.node, refusal{code: inventory.BadTaint, message: "is a taint that Plinth or Kubernetes puts on by itself", accepted: "taints of your own", suggestion: state})
			}
		}
	}
}

// taintOwners maps the key of a taint that has another owner to the text to write instead.
var taintOwners = map[string]string{
	inventory.TaintMaintenance.Key:                   "state: maintenance",
	"node.cloudprovider.kubernetes.io/uninitialized": "no such taint",
	"node.cloudprovider.kubernetes.io/shutdown":      "state: off",
	"node.kubernetes.io/not-ready":                   "state: off",
	"node.kubernetes.io/unreachable":                 "state: off",
	"node.kubernetes.io/unschedulable":               "state: maintenance",
	"node.kubernetes.io/network-unavailable":         "no such taint",
}

// storages checks that a storage says what lives in it.
func (v machineChecks) storages() {
	for storage := range v.raw.Storage.each() {
		var given []*yaml.Node
		for _, kind := range []struct {
			node *yaml.Node
			key  string
		}{{storage.NFS.node, "server"}, {storage.ISCSI.node, "portal"}, {storage.CSI.node, "driver"}} {
			if kind.node != nil {
				v.require(kind.node, kind.key)
				given = append(given, kind.node)
			}
		}
		switch {
		case len(given) > 1:
			v.refuse(given[1], refusal{code: inventory.Conflicting, message: "a storage is one of nfs, iscsi and csi", accepted: "an entry for each"}, given[0])
		case len(given) == 0 && !v.has(storage.node, "nfs") && !v.has(storage.node, "iscsi") && !v.has(storage.node, "csi"):
			v.refuse(storage.node, refusal{code: inventory.Missing, message: "does not say which volumes live in it", accepted: "nfs: {server: …}, iscsi: {portal: …} or csi: {driver: …}"})
		}
	}
}

// selectors checks that operators have the values that they want.
func (v machineChecks) selectors() {
	for pool := range v.raw.Pools.each() {
		v.selector(&pool.ServiceSelector)
		for s := range pool.ServiceSelectors.each() {
			v.selector(s)
		}
		for s := range pool.NamespaceSelectors.each() {
			v.selector(s)
		}
		for a := range pool.Advertise.each() {
			v.selector(&a.ServiceSelector)
		}
	}
}

func (v machineChecks) selector(s *rawSelector) {
	for requirement := range s.MatchExpressions.each() {
		wants := requirement.Operator.v == inventory.OpIn || requirement.Operator.v == inventory.OpNotIn
		switch {
		case !requirement.Operator.given():
		case wants && len(requirement.Values.v) == 0:
			instead := map[inventory.Operator]string{inventory.OpIn: "Exists", inventory.OpNotIn: "DoesNotExist"}[requirement.Operator.v]
			v.refuse(requirement.Operator.node, refusal{code: inventory.BadSelector, message: "wants values", accepted: "values: […]", suggestion: instead})
		case !wants && len(requirement.Values.v) > 0:
			instead := map[inventory.Operator]string{inventory.OpExists: "In", inventory.OpDoesNotExist: "NotIn"}[requirement.Operator.v]
			v.refuse(requirement.Operator.node, refusal{code: inventory.BadSelector, message: "takes no values", accepted: "no values", suggestion: instead}, requirement.Values.node)
		}
	}
}
