package lb

import (
	"cmp"
	"net/netip"
)

// LinkProblem is a problem of one of an agent's links, or of a VIP on it, in its [Report].
// It compares with ==.
type LinkProblem struct {
	On     string // the VIP, or the subnet
	Reason Reason
	Detail string // without blanks, such as a MAC or a machine; empty: there is none
}

// VIP is the VIP that the problem is of; false: it is of the whole link.
func (p LinkProblem) VIP() (netip.Addr, bool) {
	vip, err := netip.ParseAddr(p.On)
	return vip, err == nil
}

// Compare sorts problems of whole links first, and those of VIPs by address.
func (p LinkProblem) Compare(o LinkProblem) int {
	vip, _ := p.VIP()
	other, _ := o.VIP()
	return cmp.Or(vip.Compare(other), cmp.Compare(p.On, o.On), cmp.Compare(p.Reason, o.Reason), cmp.Compare(p.Detail, o.Detail))
}

// String returns the problem as it stands in the message.
func (p LinkProblem) String() string {
	s := p.On + " " + string(p.Reason)
	if p.Detail != "" {
		s += " " + p.Detail
	}
	return s
}
