package diagnose

import (
	"strings"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/preview"
)

// serviceFindings look at Services one by one. One of another program's class is not ours to
// judge, nor is one without a class that has a VIP from somebody.
func serviceFindings(seen Observed) (out []Finding) {
	for _, service := range seen.Services {
		switch {
		case service.Allocated.Status != "" && !service.Allocated.isTrue():
			out = append(out, Finding{Kind: KindService, Name: service.Key.String(), Reason: service.Allocated.Reason, Message: service.Allocated.Message})
		case service.Allocated.Status == "" && service.ours() && len(service.Shown) == 0:
			out = append(out, Finding{Kind: KindService, Name: service.Key.String(), Reason: string(ServiceUnanswered), Message: "nobody has answered it"})
		}
		if reason := service.Proxy.Reason(); reason != "" && service.ours() {
			out = append(out, Finding{Kind: KindService, Name: service.Key.String(), Reason: string(reason), Message: leftAlone(service.Proxy)})
		}
	}
	return out
}

// leftAlone returns the reason for which kube-proxy leaves a Service alone. Whether another program serves it, nobody can tell here.
func leftAlone(p lb.Proxy) string {
	name := string(p)
	switch p {
	case lb.NoProxy:
		return "its label " + lb.HeadlessLabel + " keeps kube-proxy up to 1.35 from it, though it is not headless"
	case lb.UnnamedProxy:
		name = "another program"
	default: // it has a name
	}
	return "its label " + lb.ServiceProxyLabel + " says that " + name + " serves it, so that kube-proxy leaves it alone"
}

// vipFindings tell which VIPs in use nobody announces, and what the controller says of others.
func vipFindings(seen Observed) (out []Finding) {
	told := map[lb.ServiceKey]bool{}
	if seen.Planned {
		for _, u := range preview.UnannouncedOf(seen.Inventory, seen.Cluster) {
			out = append(out, Finding{Kind: KindVIP, Name: u.Addr.String(), Of: holders(u.Services), Reason: string(u.Reason), Message: whatOf(u) + whyOf(u)})
			for _, s := range u.Services {
				told[s] = true
			}
		}
	}
	for _, s := range seen.Services {
		if s.Announced.Status == "False" && !told[s.Key] {
			out = append(out, Finding{Kind: KindService, Name: s.Key.String(), Reason: s.Announced.Reason, Message: s.Announced.Message})
		}
	}
	return out
}

// whatOf returns the problem of a VIP that is not announced as planned.
func whatOf(u preview.Unannounced) string {
	if preview.Disputes(u.Reason) {
		return "not its owner alone has it: "
	}
	return "nobody announces it: "
}

// whyOf returns the reason for which nobody announces a VIP, without its address.
func whyOf(u preview.Unannounced) string {
	return strings.TrimPrefix(u.String(), u.Addr.String()+": ")
}

// holders names Services, each once.
func holders(all []lb.ServiceKey) string {
	return strings.Join(inventory.SortedOnce(inventory.Strings(all)), ", ")
}
