package diagnose

import (
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// Status is the judgement of a datacenter at one moment: its parts with their states, and the findings.
type Status struct {
	Inventory  string `json:"inventory"`
	Generation string `json:"generation"`
	Leads      string `json:"leads,omitempty"` // the controller that does, as its lease has it; empty: none does, or it is not known
	Racks      []Rack `json:"racks"`
	Pools      []Pool `json:"pools"`
	Services   int    `json:"services"` // of type LoadBalancer

	OutOfService []OutOfService `json:"outOfService"`       // on purpose
	NotKnown     string         `json:"notKnown,omitempty"` // for want of a right; no problem of the datacenter
	NotWell      []string       `json:"notWell"`            // the findings, in words
	Findings     []Finding      `json:"findings"`
}

// Of judges an observation.
func Of(seen Observed) Status {
	status := Status{
		Generation: seen.Edit.Generation, Services: len(seen.Services),
		Racks: []Rack{}, Pools: []Pool{}, OutOfService: []OutOfService{}, NotKnown: strings.Join(seen.NotKnown, "; "), NotWell: []string{},
	}
	if seen.Leader != nil && seen.Leader.Silent == 0 && seen.Leader.Program == "" {
		status.Leads = seen.Leader.Holder
	}
	status.Findings = append([]Finding{}, controllerFindings(seen)...)
	status.add(editFindings(seen))
	if seen.Inventory != nil {
		status.Inventory = seen.Inventory.Name
		status.add(serviceFindings(seen), vipFindings(seen))
		racks, found := machineFindings(seen)
		status.Racks, status.Pools, status.OutOfService = racks, poolsOf(seen), outOfService(seen)
		status.add(found, podCIDRFindings(seen), podFindings(seen), poolFindings(status.Pools), takenFindings(seen), agentFindings(seen))
	}
	status.NotWell = append(status.NotWell, inventory.Strings(status.Findings)...)
	return status
}

func (s *Status) add(all ...[]Finding) {
	s.Findings = append(s.Findings, slices.Concat(all...)...)
}

// editFindings say whether what people wrote is in force.
func editFindings(seen Observed) (out []Finding) {
	say := func(reason, message string) {
		out = append(out, Finding{Kind: KindInventory, Reason: reason, Message: message})
	}
	switch {
	case seen.NewerFormat:
		say(reasonNewerFormat, seen.Unreadable)
		return out // whatever the controller says of edits
	case seen.Unreadable != "":
		say(string(InventoryUnreadable), seen.Unreadable)
	case seen.Edit.Store != "":
		say(reasonNotStored, "what is in force, or is to be, cannot be stored, and is tried again: "+seen.Edit.Store)
	}
	if seen.Edit.Unread {
		say(string(InventoryUnread), "nobody has looked at the newest edit of the inventory yet: what follows is of the one before. A controller that leads does so within two seconds")
	}
	of := reasonRefused
	if seen.Edit.Store != "" {
		of = reasonNotStored
	}
	switch {
	case seen.Inventory == nil:
		say(string(NoInventory), "no inventory is in force")
	case seen.Edit.Ready:
		return out
	case len(seen.Edit.Trial) > 0:
		of = reasonOnTrial
		say(of, "the newest edit of the inventory is on trial, before its terms of sessions count for all: "+strings.Join(seen.Edit.Trial, "; "))
	default:
		say(of, "the newest edit of the inventory is not in force")
	}
	for _, problem := range seen.Edit.Problems {
		if !strings.Contains(seen.Edit.Store, problem) { // else it is said
			say(of, problem)
		}
	}
	if seen.Edit.Refused != "" {
		say(reasonRefused, "the newest edit is refused for what it would take away; if it is meant: plinth allow "+seen.Edit.Refused)
	}
	return out
}
