package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab"
)

const (
	probeRate = 100              // requests a second while a machine is killed
	quiet     = 3 * time.Second  // without a loss, until the story goes on
	longest   = 30 * time.Second // that a story waits for anything
)

func (s *story) kill(ctx context.Context) error {
	machines := s.lab.Topology.Machines()
	victim := machines[len(machines)-1].Name
	s.title("A power cut at %s", victim)
	vips, err := s.lab.VIPs(ctx, webName)
	if err != nil {
		return err
	}
	probe := s.lab.Probe(ctx, lab.URL(vips[0], lab.WebPort), probeRate)
	defer probe.Stop()
	if err := s.unbroken(ctx, probe, time.Second); err != nil {
		return err
	}
	s.say("the client sends %d requests a second; %s falls silent, without a word to anybody", probeRate, victim)
	cut := time.Now()
	if err := s.lab.KillMachine(ctx, victim); err != nil {
		return err
	}
	if err := s.unbroken(ctx, probe, quiet); err != nil {
		return err
	}
	report := probe.Stop()
	recovered := max(0, report.LastLoss.Sub(cut))
	s.say("%d requests, %d lost; none any more %.1f s after the cut (the hold time of the sessions is 3 s)",
		report.Sent, report.Lost, recovered.Seconds())
	s.fact("machine killed", "no request lost any more after %.1f s", recovered.Seconds())
	s.say("power is back at %s", victim)
	if err := s.lab.ReviveMachine(ctx, victim); err != nil {
		return err
	}
	return s.lab.WaitAnnounced(ctx, vips[0])
}

// unbroken waits until a prober has lost nothing for so long.
func (s *story) unbroken(ctx context.Context, probe interface{ Report() lab.Report }, calm time.Duration) error {
	since := time.Now()
	return lab.Within(ctx, longest, func(context.Context) error {
		r := probe.Report()
		if r.LastLoss.After(since) {
			since = r.LastLoss
		}
		if r.Sent == 0 || time.Since(since) < calm {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
}

func (s *story) edit(ctx context.Context) error {
	s.title("The inventory is edited: a second pool")
	const name, asked = "intern", "198.51.100.0/28"
	service := lab.LoadBalancer(name, webName)
	service.Annotations = map[string]string{"plinth.dev/pool": name}
	service.Spec.IPFamilyPolicy = nil
	waiting, stop := context.WithTimeout(ctx, 2*time.Second)
	_, err := s.lab.Expose(waiting, service)
	stop()
	if err == nil {
		return fmt.Errorf("service %s has a VIP from pool %s, which does not exist", name, name)
	}
	s.say("service %s asks for pool %s, which does not exist yet, and waits", name, name)
	s.inventory = append(s.inventory, lab.Pool(s.lab.Topology, name, asked))
	s.quote("cat pool.yaml", s.inventory[len(s.inventory)-1])
	begun := time.Now()
	if err := s.lab.ConfigureRouters(ctx, s.inventory...); err != nil {
		return err
	}
	if err := s.lab.ApplyInventory(ctx, s.inventory...); err != nil {
		return err
	}
	var vips []netip.Addr
	err = lab.Within(ctx, longest, func(ctx context.Context) error {
		var err error
		if vips, err = s.lab.VIPs(ctx, name); err == nil && len(vips) == 0 {
			err = errors.New("no VIP yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.answers(ctx, vips[0]); err != nil {
		return err
	}
	s.say("%.1f s after the edit the client gets answers from %s", time.Since(begun).Seconds(), vips[0])
	s.fact("second pool", "%s answers %.1f s after the edit", vips[0], time.Since(begun).Seconds())
	return s.lab.WaitAnnounced(ctx, vips[0]) // one router is enough for an answer
}

// answers waits until the client gets an answer from a VIP.
func (s *story) answers(ctx context.Context, vip netip.Addr) error {
	return lab.Within(ctx, longest, func(ctx context.Context) error {
		_, err := s.lab.Get(ctx, lab.URL(vip, lab.WebPort))
		return err
	})
}

func (s *story) mistake(ctx context.Context) error {
	s.title("The inventory is edited: a mistake")
	vips, err := s.lab.VIPs(ctx, webName)
	if err != nil {
		return err
	}
	before, err := s.routersReach(ctx)
	if err != nil {
		return err
	}
	if err := s.refused(ctx, "mode: fabric", "mode: fabrik", "fabrik"); err != nil {
		return err
	}
	s.say("And one that is no mistake to a parser: a digit of the pool's prefix is another.")
	if err := s.refused(ctx, "203.0.113.0/", "203.0.112.0/", webName+" loses "+vips[0].String()); err != nil {
		return err
	}
	if err := s.clientAsks(ctx, vips[:1]); err != nil {
		return err
	}
	after, err := s.routersReach(ctx)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the routers reached\n%s\nand now reach\n%s", before, after)
	}
	s.say("Plinth stays on what it had, and says where the mistake is, and whom it would have hurt; the routers reach what they reached before.")
	s.fact("two mistakes in the inventory", "refused; no route of a router changed")
	return s.lab.ApplyInventory(ctx, s.inventory...)
}

// refused makes an edit, and waits until Plinth says what is wrong with it.
func (s *story) refused(ctx context.Context, old, edited, want string) error {
	broken := strings.Replace(s.inventory[0], old, edited, 1)
	if broken == s.inventory[0] {
		return fmt.Errorf("there is no %q in the inventory to be edited", old)
	}
	if err := s.lab.ApplyInventory(ctx, append([]string{broken}, s.inventory[1:]...)...); err != nil {
		return err
	}
	return lab.Within(ctx, longest, func(ctx context.Context) error {
		text, well, err := s.lab.Status(ctx)
		if err == nil && (well || !strings.Contains(text, want)) {
			err = errors.New(text)
		}
		if err == nil {
			s.quote("kubectl plinth status", text)
		}
		return err
	})
}

// routersReach is all that the kernels of the routers learned by BGP.
func (s *story) routersReach(ctx context.Context) (string, error) {
	var b strings.Builder
	for _, r := range s.lab.Topology.Routers {
		routes, err := s.lab.KernelRoutes(ctx, r.Name)
		if err != nil {
			return "", err
		}
		for _, route := range routes {
			if route.Protocol == "bgp" || route.Protocol == "bird" {
				fmt.Fprintln(&b, r.Name, route.Dst, route.Gateways())
			}
		}
	}
	return b.String(), nil
}

func (s *story) remove(ctx context.Context) error {
	s.title("The Service is deleted")
	vips, err := s.lab.VIPs(ctx, webName)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.lab.RemoveService(ctx, webName); err != nil {
		return err
	}
	for _, vip := range vips {
		if err := s.lab.WaitGone(ctx, vip); err != nil {
			return err
		}
	}
	s.say("%s are withdrawn from every router, and free again, after %.1f s", join(vips), time.Since(begun).Seconds())
	s.fact("Service deleted", "withdrawn everywhere after %.1f s", time.Since(begun).Seconds())
	return nil
}
