package importer

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/inventory"
)

type ciliumClusterSpec struct {
	NodeSelector *metav1.LabelSelector `json:"nodeSelector"`
	BGPInstances []struct {
		LocalASN int64            `json:"localASN"`
		Peers    []ciliumPeerSpec `json:"peers"`
	} `json:"bgpInstances"`
}

type ciliumPeerSpec struct {
	Name          string    `json:"name"`
	PeerAddress   string    `json:"peerAddress"`
	PeerASN       int64     `json:"peerASN"`
	AutoDiscovery *struct{} `json:"autoDiscovery"`
	PeerConfigRef struct {
		Name string `json:"name"`
	} `json:"peerConfigRef"`
}

type ciliumConfigSpec struct {
	AuthSecretRef string `json:"authSecretRef"`
	EBGPMultihop  int    `json:"ebgpMultihop"`
	Timers        struct {
		HoldTimeSeconds int `json:"holdTimeSeconds"`
	} `json:"timers"`
	GracefulRestart struct {
		Enabled            bool `json:"enabled"`
		RestartTimeSeconds int  `json:"restartTimeSeconds"`
	} `json:"gracefulRestart"`
	Transport struct {
		PeerPort int `json:"peerPort"`
	} `json:"transport"`
	Families []ciliumFamily `json:"families"`
}

// ciliumFamily is a family of addresses, with what is announced of it.
type ciliumFamily struct {
	AFI            string                `json:"afi"`
	SAFI           string                `json:"safi"`
	Advertisements *metav1.LabelSelector `json:"advertisements"`
}

// ciliumConfig is a CiliumBGPPeerConfig, with the routers that refer to it.
type ciliumConfig struct {
	object  *object
	spec    ciliumConfigSpec
	routers []string
}

// ciliumRestart is the restart time that Cilium takes where nothing is said.
const ciliumRestart = 120

// readConfigs reads the configurations that peers share.
func (r *ciliumReader) readConfigs() {
	for _, c := range decodeAll[ciliumConfigSpec](r, "CiliumBGPPeerConfig") {
		object, spec := c.object, c.value.Spec
		object.mark(carried, "metadata.name")
		object.mark(carried, "spec.authSecretRef", "spec.timers.holdTimeSeconds", "spec.gracefulRestart.enabled", "spec.transport.peerPort")
		r.drop(object, "spec.timers.connectRetryTimeSeconds", "sessions are tried again after 1 to 16 seconds")
		r.drop(object, "spec.timers.keepAliveTimeSeconds", "keepalives are sent every third of the hold time (RFC 4271, section 10)")
		r.drop(object, "spec.transport.sourceInterface", "sessions come from the machine's address in the router's subnet, else from the first of the router's family")
		r.drop(object, "spec.transport.localPort", "nobody connects to a machine: it connects to its routers")
		if h := spec.Timers.HoldTimeSeconds; object.has("spec.timers.holdTimeSeconds") && h < 3 {
			r.drop(object, "spec.timers.holdTimeSeconds", "the least is 3 seconds; sessions get 9")
		}
		object.mark(meaningless, "spec.gracefulRestart.restartTimeSeconds", "spec.ebgpMultihop")
		if spec.GracefulRestart.Enabled {
			object.mark(carried, "spec.gracefulRestart.restartTimeSeconds")
		}
		if spec.EBGPMultihop > 1 {
			object.mark(carried, "spec.ebgpMultihop")
		}
		for i, f := range spec.Families {
			path := fmt.Sprintf("spec.families[%d]", i)
			object.mark(meaningless, path+".afi", path+".safi", path+".advertisements") // which it chooses is said at those
			if !f.carriesVIPs() {
				r.markAndNote(object, path, NoCounterpart, fmt.Sprintf("%s %s: a session carries unicast routes of IPv4 and IPv6", f.AFI, f.SAFI))
			}
		}
		r.configs = append(r.configs, &ciliumConfig{object: object, spec: spec})
	}
}

// config is the one of a name, or nil.
func (r *ciliumReader) config(name string) *ciliumConfig {
	if i := slices.IndexFunc(r.configs, func(c *ciliumConfig) bool { return c.object.name == name }); i >= 0 {
		return r.configs[i]
	}
	return nil
}

// cluster makes routers of the peers of some Nodes.
func (r *ciliumReader) cluster(object *object, spec ciliumClusterSpec) {
	if r.places.nobody(r.nodes(spec.NodeSelector)) {
		r.leaveOut(object, "spec.nodeSelector", NotValid, "no Node that was read has these labels: its routers are left out")
		return
	}
	object.mark(carried, "spec.nodeSelector")
	racks := r.places.of(object, "spec.nodeSelector", r.nodes(spec.NodeSelector))
	for i, instance := range spec.BGPInstances {
		path := fmt.Sprintf("spec.bgpInstances[%d]", i)
		object.mark(meaningless, path+".name")
		r.drop(object, path+".localPort", "nobody connects to a machine: it connects to its routers")
		if instance.LocalASN <= 0 || instance.LocalASN > math.MaxUint32 {
			r.leftOut = true
			r.markAndNote(object, path, ByHand, "has no localASN: write the routers with the machines' AS number (bgp.asn). They are left out")
			continue
		}
		object.mark(carried, path+".localASN")
		var routers []string
		for j, peer := range instance.Peers {
			if name := r.router(object, fmt.Sprintf("%s.peers[%d]", path, j), peer, instance.LocalASN); name != "" {
				routers = append(routers, name)
			}
		}
		if len(routers) == 0 {
			routers = []string{""} // whose peers are left out: the number counts all the same
		}
		for _, router := range routers {
			r.peer(peering{router: router, racks: racks, asn: inventory.ASN(instance.LocalASN), object: object, path: path + ".localASN"})
		}
	}
}

// router is the name of the router that a peer is; empty: it cannot be there.
func (r *ciliumReader) router(object *object, path string, spec ciliumPeerSpec, localASN int64) string {
	leave := func(code Code, message string) string {
		r.leaveOutRouter(object, path, code, message)
		return ""
	}
	if spec.AutoDiscovery != nil && spec.PeerAddress == "" {
		return leave(ByHand, fmt.Sprintf("%s is found by the default gateway of each Node: write a router with its address in each rack. It is left out", spec.Name))
	}
	addr, err := addressIn(spec.PeerAddress)
	if err != nil {
		return leave(NotValid, fmt.Sprintf("%q is not an address: the router is left out", spec.PeerAddress))
	}
	if spec.PeerASN <= 0 || spec.PeerASN > math.MaxUint32 {
		return leave(ByHand, "Plinth wants the number of the router's AS: write the router with it. It is left out")
	}
	asn := inventory.ASN(spec.PeerASN)
	object.mark(carried, path+".name", path+".peerAddress", path+".peerASN", path+".peerConfigRef.name")
	object.mark(meaningless, path+".peerConfigRef.group", path+".peerConfigRef.kind", path+".autoDiscovery")
	config := r.config(spec.PeerConfigRef.Name)
	if spec.PeerConfigRef.Name != "" && config == nil {
		object.mark(noted, path+".peerConfigRef")
		object.mark(noted, path+".peerConfigRef.name")
		r.note(object, path+".peerConfigRef", NotValid, fmt.Sprintf("there is no CiliumBGPPeerConfig %q in what was read: the session has Plinth's defaults", spec.PeerConfigRef.Name))
	}
	for i, have := range r.inv.Routers {
		if slices.Contains(have.Addresses, addr) {
			return r.again(object, path, spec, &r.inv.Routers[i], config)
		}
	}
	if why := r.unusable(addr); why != "" {
		return leave(NotValid, fmt.Sprintf("%v %s: the router is left out", addr, why))
	}
	name, same := r.newName(routerName, spec.Name)
	if !same {
		r.note(object, path+".name", Renamed, fmt.Sprintf("%q is %q in the inventory", spec.Name, name))
	}
	router := inventory.Router{Name: name, Addresses: []netip.Addr{addr}, ASN: asn, Port: 179}
	if config != nil {
		r.session(config, &router, spec.PeerASN != localASN)
		config.routers = append(config.routers, name)
	}
	r.comment("spec.routers["+name+"]", object)
	r.inv.Routers = append(r.inv.Routers, router)
	return name
}

// again is a peer whose router is there already, as for Nodes of another rack.
func (r *ciliumReader) again(o *object, path string, p ciliumPeerSpec, have *inventory.Router, config *ciliumConfig) string {
	o.mark(meaningless, path+".name")
	if config == nil || !slices.Contains(config.routers, have.Name) || have.ASN != inventory.ASN(p.PeerASN) {
		r.overrideAndNote(o, path, Differs, fmt.Sprintf("router %s has this address already, with other settings: the first ones count", have.Name))
	}
	return have.Name
}

// session carries over how a session is held.
func (r *ciliumReader) session(config *ciliumConfig, router *inventory.Router, external bool) {
	object, spec := config.object, config.spec
	to := &router.Session
	if h := spec.Timers.HoldTimeSeconds; h >= 3 {
		to.HoldTime = inventory.Some(time.Duration(h) * time.Second)
	}
	switch gr := spec.GracefulRestart; {
	case gr.Enabled && gr.RestartTimeSeconds > 0:
		to.RestartTime = inventory.Some(time.Duration(gr.RestartTimeSeconds) * time.Second)
	case gr.Enabled:
		to.RestartTime = inventory.Some(ciliumRestart * time.Second)
	case object.has("spec.gracefulRestart.enabled"):
		to.RestartTime = inventory.Some(time.Duration(0))
	}
	if spec.EBGPMultihop > 1 && external {
		to.Multihop = inventory.Some(uint8(min(spec.EBGPMultihop, 255)))
	} else if spec.EBGPMultihop > 1 && len(config.routers) == 0 {
		r.drop(object, "spec.ebgpMultihop", fmt.Sprintf("counts where the router has another AS number than the machines, and %s has the same", router.Name))
	}
	if spec.Transport.PeerPort > 0 {
		router.Port = uint16(spec.Transport.PeerPort)
	}
	if spec.AuthSecretRef != "" && r.namesSecret(object, "spec.authSecretRef", spec.AuthSecretRef) {
		to.Password = inventory.Some(inventory.SecretKey{Secret: spec.AuthSecretRef, Key: "password"})
		if len(config.routers) == 0 { // once
			r.note(object, "spec.authSecretRef", ByHand, "copy the Secret into Plinth's namespace: "+copySecretCommand("kube-system", spec.AuthSecretRef, "password"))
		}
	}
}

// addEach adds names that are not there yet.
func addEach(to, names []string) []string {
	for _, name := range names {
		if !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}

// leaveOutUnused notes configurations that no router has.
func (r *ciliumReader) leaveOutUnused() {
	for _, c := range r.configs {
		if len(c.routers) == 0 {
			r.leaveOut(c.object, "", NotValid, "no router that is in the inventory refers to it: its settings of sessions are left out")
		}
	}
}
