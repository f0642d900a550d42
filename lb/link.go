package lb

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// LinkProblem is what an agent says of one of its links, or of a VIP on it, in the message of [FabricReady].
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

func (p LinkProblem) String() string {
	return strings.TrimSuffix(p.On+" "+string(p.Reason)+" "+p.Detail, " ")
}

const (
	linkMark = "on link "
	// linkProblemsTold bounds what a Node says: it is read by everybody. Services know by it alone which host has their VIP.
	linkProblemsTold = 100
)

// LinkProblemsText is how problems stand in the message; empty: there are none. Of many the first are told, and how many there are more.
func LinkProblemsText(all []LinkProblem) string {
	if len(all) == 0 {
		return ""
	}
	var told []string
	for _, p := range all[:min(len(all), linkProblemsTold)] {
		told = append(told, p.String())
	}
	text := linkMark + strings.Join(told, ", ")
	if more := len(all) - len(told); more > 0 {
		text += fmt.Sprintf("; %d more on links", more)
	}
	return text
}

// LinkProblemsIn reads the problems from a message.
func LinkProblemsIn(message string) (all []LinkProblem) {
	for part := range strings.SplitSeq(message, "; ") {
		said, marked := strings.CutPrefix(part, linkMark)
		if !marked {
			continue
		}
		for one := range strings.SplitSeq(said, ", ") {
			if words := strings.SplitN(one, " ", 3); len(words) >= 2 {
				p := LinkProblem{On: words[0], Reason: Reason(words[1])}
				if len(words) == 3 {
					p.Detail = words[2]
				}
				all = append(all, p)
			}
		}
	}
	return all
}
