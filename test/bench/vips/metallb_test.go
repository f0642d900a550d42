package vips

import (
	"net/netip"
	"os"
	"time"

	"plinth.dev/plinth/test/apiserver"
	"plinth.dev/plinth/test/bench/metallb"
)

// metallb is MetalLB as its manifest for native BGP starts it.
func (s *stand) metallb() contender {
	return contender{
		name:      "metallb",
		deletions: 5, // each takes seconds
		controller: func() *apiserver.Process {
			return s.Spawn(program(metallb.Controller), metallb.ControllerFlags(s.Kubeconfig)...)
		},
		speaker: func() *apiserver.Process {
			return s.Spawn(program(metallb.Speaker), metallb.SpeakerFlags(s.Kubeconfig, machine)...)
		},
	}
}

// installMetalLB applies its resources, with the same router and the same pool.
func (s *stand) installMetalLB() {
	s.b.Helper()
	check(s.b, metallb.Install(os.Getenv(programs), metallb.Config{
		ASN: machineASN, Peers: []metallb.Peer{{Name: "tor", Address: netip.MustParseAddr(routerAddr), ASN: routerASN}}, HoldTime: 90 * time.Second,
		Pools: []string{pool}, Nodes: []metallb.Node{{Name: machine}},
	}, func(args ...string) error {
		s.Kubectl(args...)
		return nil
	}))
}
