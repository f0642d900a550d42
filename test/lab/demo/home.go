package demo

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

const (
	packetRate = 1000 // packets a second while a machine's power is cut
	pageRate   = 100  // pages a second while an agent is replaced
	downloads  = 20   // connections that are held open meanwhile
)

// home is the story of a home: VIPs on the link, with no router that speaks BGP.
func (s *story) home(t lab.Topology, o lab.Options) []step {
	return []step{
		{"building the home", func(ctx context.Context) error { return s.buildHome(ctx, t, o) }},
		{"taking up the inventory", s.takeUpHome},
		{"service", s.homeService},
		{"power cut", s.homePowerCut},
		{"agent replaced", s.homeUpgrade},
		{"stranger", s.homeStranger},
		{"edit that would hurt", s.homeMistake},
		{"service deleted", s.homeRemove},
	}
}

func (s *story) buildHome(ctx context.Context, t lab.Topology, o lab.Options) error {
	s.title("A home on this machine")
	s.quote("", planHome(t))
	s.say("Every host is a network namespace. The gateway is a plain router: it forwards, and speaks no BGP.")
	s.say("etcd, kube-apiserver, its controllers and scheduler are real, and so is a kube-proxy on each machine.")
	begun := time.Now()
	var err error
	if s.lab, err = lab.Start(ctx, t, o); err != nil {
		return err
	}
	s.fact("home", "%d machines on one subnet, a control plane: up in %.0f s", len(t.Machines()), time.Since(begun).Seconds())
	return nil
}

func planHome(t lab.Topology) string {
	var b strings.Builder
	rack := t.Racks[0]
	at := t.RouterAddress(lab.HomeGateway, rack.Name)
	fmt.Fprintf(&b, "the rest of the world: client %s, %s\n|\n", lab.ClientAddress.V4, lab.ClientAddress.V6)
	fmt.Fprintf(&b, "+-- %s %s, %s\n", lab.HomeGateway, at.V4, at.V6)
	for _, m := range rack.Machines {
		a := t.MachineAddress(m.Name)
		fmt.Fprintf(&b, "    +-- %s %s, %s\n", m.Name, a.V4, a.V6)
	}
	for _, h := range rack.Hosts {
		a := t.HostAddress(h)
		fmt.Fprintf(&b, "    +-- %s %s, %s\n", h, a.V4, a.V6)
	}
	return b.String()
}

func (s *story) takeUpHome(ctx context.Context) error {
	s.title("What is told to Plinth: one inventory, without an AS number")
	s.quote("cat inventory.yaml", s.inventory[0])
	s.say("The pool's addresses lie in the subnet of the machines, and the subnet has no router that speaks BGP:")
	s.say("so they are answered for on the link, by ARP and neighbour discovery.")
	begun := time.Now()
	if err := s.lab.StartPlinth(ctx, s.inventory...); err != nil {
		return err
	}
	if err := s.lab.WaitFabric(ctx); err != nil {
		return err
	}
	s.fact("Plinth", "all Nodes initialised and Ready, and their routes in place, after %.1f s", time.Since(begun).Seconds())
	return nil
}

func (s *story) homeService(ctx context.Context) error {
	s.title("A phone opens a page")
	if err := s.lab.RunWeb(ctx, lab.Web{Name: webName, Replicas: int32(len(s.lab.Topology.Machines()))}); err != nil {
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
	for _, vip := range vips {
		if err := s.phoneOpens(ctx, vip); err != nil {
			return err
		}
	}
	s.fact("Service", "VIPs %s after %.2f s, pages on the phone after %.2f s", join(vips), named.Seconds(), time.Since(begun).Seconds())
	for _, vip := range vips {
		if err := s.lab.WaitServed(ctx, vip); err != nil {
			return err
		}
	}
	s.say("and so does a client behind the gateway, which knows nothing of it.")
	neighbours, err := netns.Output(ctx, s.lab.Namespace(lab.Phone), "ip", "neigh", "show", "to", vips[0].String())
	if err != nil {
		return err
	}
	s.quote(lab.Phone+"# ip neigh show to "+vips[0].String(), neighbours)
	owner, err := s.lab.WaitOwner(ctx, lab.Laptop, vips[0])
	s.say("That is the hardware address of %s: one machine answers for an address, at any time.", owner)
	return err
}

// phoneOpens has the phone open a page until it is there.
func (s *story) phoneOpens(ctx context.Context, vip netip.Addr) error {
	url := lab.URL(vip, lab.WebPort)
	return lab.Within(ctx, longest, func(ctx context.Context) error {
		a, err := s.lab.GetFrom(ctx, lab.Phone, url)
		if err == nil {
			s.say("%s opens %s: pod %s on %s, which sees the phone's own address %s", lab.Phone, url, a.Pod, a.Node, a.Client)
		}
		return err
	})
}

// owned is a VIP of the Service, IPv4, and the machine that answers for it.
func (s *story) owned(ctx context.Context) (vip netip.Addr, owner string, err error) {
	vips, err := s.lab.VIPs(ctx, webName)
	if err != nil {
		return vip, "", err
	}
	owner, err = s.lab.WaitOwner(ctx, lab.Laptop, vips[0])
	return vips[0], owner, err
}

func (s *story) homePowerCut(ctx context.Context) error {
	vip, owner, err := s.owned(ctx)
	if err != nil {
		return err
	}
	s.title("A power cut at %s, which answers for %s", owner, vip)
	probe, err := s.lab.ProbeUDPFrom(ctx, lab.Phone, net.JoinHostPort(vip.String(), "7"), packetRate)
	if err != nil {
		return err
	}
	defer probe.Stop()
	if err := s.unbroken(ctx, probe, time.Second); err != nil {
		return err
	}
	s.say("the phone sends %d packets a second, and %s falls silent, without a word to anybody", packetRate, owner)
	if err := s.lab.KillMachine(ctx, owner); err != nil {
		return err
	}
	if err := s.unbroken(ctx, probe, quiet); err != nil {
		return err
	}
	report := probe.Stop()
	next, err := s.lab.WaitOwner(ctx, lab.Laptop, vip)
	if err != nil {
		return err
	}
	s.say("%d packets, %d lost in a row of %d ms; now %s answers", report.Sent, report.Lost, report.Longest.Milliseconds(), next)
	s.fact("power cut", "the page went on after %d ms, on %s", report.Longest.Milliseconds(), next)
	s.say("power is back at %s, which takes nothing back: nobody has to move twice", owner)
	return s.boot(ctx, owner)
}

// boot starts a machine again whose power was cut: what ran on it does not remember.
func (s *story) boot(ctx context.Context, machine string) error {
	if err := s.lab.StopAgent(ctx, machine, syscall.SIGKILL); err != nil {
		return err
	}
	if err := s.lab.ReviveMachine(ctx, machine); err != nil {
		return err
	}
	if err := s.lab.StartAgentAgain(machine); err != nil {
		return err
	}
	return s.lab.WaitReady(ctx, longest)
}

func (s *story) homeUpgrade(ctx context.Context) error {
	vip, owner, err := s.owned(ctx)
	if err != nil {
		return err
	}
	s.title("The agent of %s is replaced by a newer one", owner)
	probe := s.lab.ProbeFrom(ctx, lab.Phone, lab.URL(vip, lab.WebPort), pageRate)
	defer probe.Stop()
	if err := s.unbroken(ctx, probe, time.Second); err != nil {
		return err
	}
	held, err := s.lab.Hold(ctx, lab.Phone, net.JoinHostPort(vip.String(), fmt.Sprint(lab.WebPort)), downloads, 100*time.Millisecond)
	if err != nil {
		return err
	}
	defer held.Stop()
	s.say("the phone opens %d pages a second, and holds %d connections open; the agent ends", pageRate, downloads)
	if err := s.lab.StopAgent(ctx, owner, syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.unbroken(ctx, probe, quiet); err != nil { // an image is pulled meanwhile
		return err
	}
	if err := s.lab.StartAgentAgain(owner); err != nil {
		return err
	}
	if err := s.unbroken(ctx, probe, quiet); err != nil {
		return err
	}
	report, connections := probe.Stop(), held.Stop()
	s.say("%s; %s", report, connections)
	if after, err := s.lab.WaitOwner(ctx, lab.Laptop, vip); err != nil || after != owner {
		return fmt.Errorf("%s answered for %s, and now %s does: %w", owner, vip, after, err)
	}
	if report.Lost > 0 || connections.Broken > 0 {
		return fmt.Errorf("%d pages lost, %d connections broken", report.Lost, connections.Broken)
	}
	s.fact("agent replaced", "%d pages, none lost; %d connections held open, none broken; no address moved", report.Sent, connections.Connections)
	return nil
}

func (s *story) homeStranger(ctx context.Context) error {
	vip, _, err := s.owned(ctx)
	if err != nil {
		return err
	}
	s.title("Somebody types %s into a laptop", vip)
	macs, err := s.lab.MACs()
	if err != nil {
		return err
	}
	var stranger string
	for mac, host := range macs {
		if host == lab.Laptop {
			stranger = mac.String()
		}
	}
	begun := time.Now()
	if err := s.lab.TakeAddress(lab.Laptop, vip); err != nil {
		return err
	}
	if err := s.statusSays(ctx, stranger); err != nil {
		return err
	}
	s.fact("a stranger takes a VIP", "%s is named %.1f s later", stranger, time.Since(begun).Seconds())
	if err := s.lab.GiveBackAddress(lab.Laptop, vip); err != nil {
		return err
	}
	s.say("the laptop has another address again, and the phone asks anew")
	if err := s.lab.ForgetNeighbours(ctx, lab.Phone); err != nil {
		return err
	}
	return s.phoneOpens(ctx, vip)
}

// statusSays waits until plinth status has some words, and quotes it.
func (s *story) statusSays(ctx context.Context, words string) error {
	return lab.Within(ctx, longest, func(ctx context.Context) error {
		text, _, err := s.lab.Status(ctx)
		if err == nil && !strings.Contains(text, words) {
			err = fmt.Errorf("no word of %q in\n%s", words, text)
		}
		if err == nil {
			s.quote("kubectl plinth status", text)
		}
		return err
	})
}

func (s *story) homeMistake(ctx context.Context) error {
	vip, owner, err := s.owned(ctx)
	if err != nil {
		return err
	}
	s.title("The inventory is edited, and a digit is wrong")
	from := lab.LANPool4.From().String()
	if err := s.refused(ctx, from+"-", strings.TrimSuffix(from, "00")+"40-", webName+" loses "+vip.String()); err != nil {
		return err
	}
	if still, err := s.lab.WaitOwner(ctx, lab.Laptop, vip, owner); err != nil {
		return fmt.Errorf("%s answers for %s: %w", still, vip, err)
	}
	s.say("Plinth stays on what it had, and says whom it would have hurt; %s answers on.", owner)
	s.fact("a mistake in the inventory", "refused; no address moved")
	return s.lab.ApplyInventory(ctx, s.inventory...)
}

func (s *story) homeRemove(ctx context.Context) error {
	s.title("The Service is deleted")
	vips, err := s.lab.VIPs(ctx, webName)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.lab.RemoveService(ctx, webName); err != nil {
		return err
	}
	err = lab.Within(ctx, longest, func(ctx context.Context) error {
		owners, err := s.lab.OwnersOf(ctx, lab.Laptop, vips...)
		for vip, hosts := range owners {
			if len(hosts) > 0 {
				return fmt.Errorf("%v still answer for %s", hosts, vip)
			}
		}
		return err
	})
	s.say("nobody answers for %s any more after %.1f s", join(vips), time.Since(begun).Seconds())
	s.fact("Service deleted", "nobody answers any more after %.1f s", time.Since(begun).Seconds())
	return err
}
