package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"plinth.dev/plinth/test/lab"
)

func (s *story) build(ctx context.Context, t lab.Topology, o lab.Options) error {
	s.title("A datacenter on this machine")
	s.quote("", plan(t))
	s.say("Every host is a network namespace: etcd, kube-apiserver, its controllers and scheduler are real,")
	s.say("so are FRR and BIRD, and a kube-proxy on each machine.")
	var err error
	begun := time.Now()
	if s.lab, err = lab.Start(ctx, t, o); err != nil {
		return err
	}
	s.fact("datacenter", "%d racks, %d machines, %d routers, a control plane: up in %.0f s",
		len(t.Racks), len(t.Machines()), len(t.Routers), time.Since(begun).Seconds())
	return nil
}

// plan draws what stands where.
func plan(t lab.Topology) string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %s, %s\n", lab.ClientAddress.V4, lab.ClientAddress.V6)
	for _, rack := range t.Racks {
		for _, name := range rack.Routers {
			r, _ := t.Router(name)
			a := t.RouterAddress(name, rack.Name)
			fmt.Fprintf(&b, "|\n+-- %s (%s, AS %d) %s, %s\n", r.Name, strings.ToUpper(r.OS), r.ASN, a.V4, a.V6)
		}
		fmt.Fprintf(&b, "|   rack %s, zone %s\n", rack.Name, rack.Zone)
		for _, m := range rack.Machines {
			a := t.MachineAddress(m.Name)
			fmt.Fprintf(&b, "|   +-- %s %s, %s\n", m.Name, a.V4, a.V6)
		}
	}
	return b.String()
}

func (s *story) takeUp(ctx context.Context) error {
	s.title("What is told to Plinth: one inventory")
	if err := s.lab.BuildPlinth(ctx); err != nil {
		return err
	}
	s.quote("cat inventory.yaml", s.inventory[0])
	s.say("The same file gives the router's side. Both ends come from one source and cannot disagree:")
	router := s.lab.Topology.Routers[0]
	config, err := s.routerConfig(ctx, router)
	if err != nil {
		return err
	}
	s.quote(fmt.Sprintf("plinth router-config %s --os %s inventory.yaml", router.Name, router.OS), head(config, 24))
	begun := time.Now()
	if err := s.lab.StartPlinth(ctx, s.inventory...); err != nil {
		return err
	}
	ready := time.Since(begun)
	if err := s.lab.WaitFabric(ctx); err != nil {
		return err
	}
	s.fact("Plinth", "all Nodes initialised and Ready %.1f s after its start, all sessions up after %.1f s",
		ready.Seconds(), time.Since(begun).Seconds())
	return nil
}

// routerConfig is what an operator would load into a router, for the documents in force.
func (s *story) routerConfig(ctx context.Context, r lab.Router) (string, error) {
	folder, err := os.MkdirTemp("", "plinth-demo-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	var files []string
	for i, document := range s.inventory {
		file := filepath.Join(folder, fmt.Sprintf("inventory%d.yaml", i))
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			return "", err
		}
		files = append(files, file)
	}
	return s.lab.RouterConfig(ctx, r, files...)
}

func (s *story) nodes(ctx context.Context) error {
	s.title("The Nodes know where they are")
	for _, view := range [][]string{
		{"get", "nodes", "-L", "topology.kubernetes.io/zone,plinth.dev/rack,node.kubernetes.io/instance-type"},
		{"get", "nodes", "-o", "custom-columns=NAME:.metadata.name,PROVIDER-ID:.spec.providerID,POD-CIDRS:.spec.podCIDRs[*]"},
	} {
		out, err := s.lab.Kubectl(ctx, view...)
		if err != nil {
			return err
		}
		s.quote("kubectl "+strings.Join(view, " "), out)
	}
	return nil
}
