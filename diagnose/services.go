package diagnose

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// serviceFindings look at Services one by one. One of another program's class is not ours to
// judge, nor is one without a class that has a VIP from somebody.
func serviceFindings(seen Observed) (out []Finding) {
	for _, s := range seen.Services {
		switch {
		case s.Allocated.Status != "" && !s.Allocated.isTrue():
			out = append(out, Finding{Kind: KindService, Name: s.Key.String(), Reason: s.Allocated.Reason, Message: s.Allocated.Message})
		case s.Allocated.Status == "" && s.ours() && len(s.Shown) == 0:
			out = append(out, Finding{Kind: KindService, Name: s.Key.String(), Message: "nobody has answered it"})
		}
	}
	return out
}

// vipFindings tell which VIPs in use nobody announces: by plan, or since no machine that is to
// has a router that listens; and what the controller says of others.
func vipFindings(seen Observed, planned *preview.Preview) (out []Finding) {
	told := map[string]bool{} // Services
	if planned != nil {
		heard := preview.Of(seen.Inventory, heardOf(seen.Cluster), preview.Failures{})
		for i, vip := range planned.VIPs {
			reason, why := unannounced(vip, heard.VIPs[i])
			if reason == "" {
				continue
			}
			out = append(out, Finding{Kind: KindVIP, Name: vip.Addr.String(), Of: holders(vip), Reason: string(reason), Message: "nobody announces it: " + why})
			for _, s := range vip.Services {
				told[s.String()] = true
			}
		}
	}
	for _, s := range seen.Services {
		if s.Announced.Status == "False" && !told[s.Key.String()] {
			out = append(out, Finding{Kind: KindService, Name: s.Key.String(), Reason: s.Announced.Reason, Message: s.Announced.Message})
		}
	}
	return out
}

// unannounced is why nobody announces a VIP; empty: somebody does.
func unannounced(planned, heard preview.VIP) (lb.Reason, string) {
	switch {
	case len(planned.By) == 0:
		return reasonOf(planned), planned.Why()
	case len(heard.By) == 0:
		return lb.FabricSessionsDown, "of the machines that are to, " + someOf(machinesOf(planned)) + ", none has a session with a router"
	}
	return "", ""
}

// reasonOf is the one that most machines give; where there is no machine that could, that none is active.
func reasonOf(vip preview.VIP) lb.Reason {
	reasons := slices.SortedFunc(maps.Keys(vip.Reasons), func(a, b lb.Reason) int {
		return cmp.Or(cmp.Compare(vip.Reasons[b], vip.Reasons[a]), cmp.Compare(a, b))
	})
	return append(reasons, lb.MachineNotActive)[0]
}

// machinesOf are those that announce a VIP, sorted.
func machinesOf(vip preview.VIP) (names []string) {
	for _, a := range vip.By {
		names = append(names, a.Machine)
	}
	return slices.Compact(names)
}

func holders(vip preview.VIP) string {
	var names []string
	for _, s := range vip.Services {
		names = append(names, s.String())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// heardOf is a cluster without the Nodes of which there is no word that they serve.
func heardOf(c preview.Cluster) preview.Cluster {
	nodes := map[string]preview.Node{}
	for name, n := range c.Nodes {
		if !n.Silent {
			nodes[name] = n
		}
	}
	c.Nodes = nodes
	return c
}
