package demo

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

const (
	webName  = "web"
	requests = 60 // that the client sends to show who answers
)

func (s *story) service(ctx context.Context) error {
	s.title("A Service of type LoadBalancer")
	machines := s.lab.Topology.Machines()
	if err := s.lab.RunWeb(ctx, lab.Web{Name: webName, Replicas: int32(len(machines))}); err != nil {
		return err
	}
	service := lab.LoadBalancer(webName, webName)
	service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	begun := time.Now()
	vips, err := s.lab.Expose(ctx, service)
	if err != nil {
		return err
	}
	named := time.Since(begun)
	out, err := s.lab.Kubectl(ctx, "get", "service", webName)
	if err != nil {
		return err
	}
	s.quote("kubectl get service "+webName, out)
	out, err = s.lab.Kubectl(ctx, "get", "ipaddresses", "-l", "ipaddress.kubernetes.io/managed-by=plinth.dev")
	if err != nil {
		return err
	}
	s.quote("kubectl get ipaddresses -l ipaddress.kubernetes.io/managed-by=plinth.dev", out)
	for _, vip := range vips {
		if err := s.lab.WaitAnnounced(ctx, vip); err != nil {
			return err
		}
	}
	s.fact("Service", "VIPs %s after %.2f s, in every router after %.2f s", join(vips), named.Seconds(), time.Since(begun).Seconds())
	// kube-proxy gathers changes for up to a second before it writes its rules.
	for _, vip := range vips {
		if err := s.answers(ctx, vip); err != nil {
			return err
		}
	}
	s.fact("first answers", "from both after %.2f s, when every kube-proxy has its rules", time.Since(begun).Seconds())
	for _, vip := range vips {
		if err := s.lab.WaitServed(ctx, vip); err != nil {
			return err
		}
	}
	if err := s.routersSay(ctx, vips[0]); err != nil {
		return err
	}
	return s.clientAsks(ctx, vips)
}

// routersSay quotes every router on a VIP, and its kernel.
func (s *story) routersSay(ctx context.Context, vip netip.Addr) error {
	s.say("What the routers say of %s themselves, each with a next hop for every machine of its rack:", vip)
	prefix := lab.VIPPrefix(vip)
	for _, r := range s.lab.Topology.Routers {
		said, err := s.lab.ShowBGP(ctx, r.Name, prefix)
		if err != nil {
			return err
		}
		command := fmt.Sprintf("%s# vtysh -c 'show bgp ipv4 unicast %s'", r.Name, prefix)
		if r.OS == lab.BIRD {
			command = fmt.Sprintf("%s# birdc show route for %s", r.Name, prefix)
		}
		s.quote(command, head(said, 16))
		hops, err := s.lab.NextHops(ctx, r.Name, prefix)
		if err != nil {
			return err
		}
		s.quote(fmt.Sprintf("%s# ip route show %s", r.Name, prefix), "next hops in the kernel: "+join(hops))
	}
	return nil
}

// clientAsks sends requests to each VIP and tells who answered.
func (s *story) clientAsks(ctx context.Context, vips []netip.Addr) error {
	for _, vip := range vips {
		answers := map[string]int{}
		for range requests {
			a, err := s.lab.Get(ctx, lab.URL(vip, lab.WebPort))
			if err != nil {
				return err
			}
			answers[a.Node]++
		}
		s.say("the client sent %d requests to %s; answered by %s", requests, vip, counts(answers))
		s.fact("client to "+vip.String(), "%d of %d requests answered, by %s", requests, requests, counts(answers))
		if len(answers) < 2 {
			return fmt.Errorf("only one machine answers for %s: %s", vip, counts(answers))
		}
	}
	return nil
}

func (s *story) pods(ctx context.Context) error {
	s.title("Pods reach each other, within a rack and across racks")
	pods, err := s.lab.Pods(ctx, webName)
	if err != nil {
		return err
	}
	reached := 0
	for _, from := range pods {
		for _, to := range pods {
			for _, ip := range to.Status.PodIPs {
				url := lab.URL(netip.MustParseAddr(ip.IP), 8080)
				if _, err := s.lab.GetFromPod(ctx, from.Spec.NodeName, from.Namespace, from.Name, url); err != nil {
					return fmt.Errorf("from the pod on %s to %s on %s: %w", from.Spec.NodeName, ip.IP, to.Spec.NodeName, err)
				}
				reached++
			}
		}
	}
	s.say("%d pods, each asked each over IPv4 and IPv6: %d of %d requests answered", len(pods), reached, reached)
	s.fact("pod to pod", "%d of %d requests answered, both families", reached, reached)
	machine := s.lab.Topology.Machines()[0].Name
	routes, err := s.lab.KernelRoutes(ctx, machine)
	if err != nil {
		return err
	}
	s.quote(machine+"# ip route show proto 114; ip -6 route show proto 114", ours(routes))
	return nil
}

// ours prints the routes that bear Plinth's protocol number.
func ours(routes []lab.KernelRoute) string {
	var b strings.Builder
	for _, r := range routes {
		if r.Protocol == "114" {
			fmt.Fprintf(&b, "%s %s metric %d\n", r.Dst, via(r), r.Metric)
		}
	}
	return b.String()
}

func via(r lab.KernelRoute) string {
	if hops := r.Gateways(); len(hops) > 0 {
		return "via " + join(hops)
	}
	return "unreachable"
}

func join(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, " and ")
}

// counts prints a histogram, by name.
func counts(m map[string]int) string {
	var parts []string
	for name, n := range m {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
