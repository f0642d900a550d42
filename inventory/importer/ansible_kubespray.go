package importer

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// wellKnown are the communities that kubespray gives names to (RFC 1997, RFC 3765).
var wellKnown = map[string]string{"no-export": "65535:65281", "no-advertise": "65535:65282", "local-as": "65535:65283", "nopeer": "65535:65284"}

// communities reads names of communities.
func (p *ansiblePools) communities(variable ansibleVar) {
	for name, text := range wellKnown {
		p.aliases[name], _ = inventory.ParseCommunity(text)
	}
	path := variable.path() + ".layer3.communities"
	for name, n := range pairs(child(child(variable.node, "layer3"), "communities")) {
		at := join(path, name.Value)
		text, ok := p.textAt(variable, at, n)
		if !ok {
			continue
		}
		value, err := inventory.ParseCommunity(text)
		if err != nil {
			p.tellOnce(variable.object, at, NotValid, fmt.Sprintf("%v: it is left out", err))
			continue
		}
		p.aliases[name.Value] = value
	}
}

// kubesprayPeers makes routers of the peers. What a peer says of pools kubespray writes without the peer's name: it is for all routers.
func (p *ansiblePools) kubesprayPeers(variable ansibleVar, made map[string]*inventory.Pool) {
	for given, body := range pairs(child(child(variable.node, "layer3"), "metallb_peers")) {
		path := join(variable.path()+".layer3.metallb_peers", given.Value)
		p.kubesprayRouter(variable, path, given.Value, body)
		advertisements := p.advertisementsOf(variable, path, body)
		names, paths := p.texts(variable, path+".address_pool", child(body, "address_pool"))
		for i, name := range names {
			switch pool := made[name]; {
			case pool == nil:
				p.tellOnce(variable.object, paths[i], NotValid, fmt.Sprintf("there is no address pool %q", name))
			case pool.Via == inventory.ViaLink:
				p.tellOnce(variable.object, paths[i], Differs, fmt.Sprintf("pool %s is announced on the link, too (layer2): Plinth announces an address one way, and takes the link", pool.Name))
			default:
				variable.object.mark(carried, paths[i])
				pool.Advertise = append(pool.Advertise, advertisements...)
			}
		}
	}
	for _, pool := range p.inOrder(variable, made) {
		p.unite(variable.object, pool.Pool, nil) // that two peers name one pool is how kubespray is told of two routers: no note says that one of them would do
	}
}

// kubesprayRouter makes a router of a peer.
func (p *ansiblePools) kubesprayRouter(variable ansibleVar, path, given string, body *yaml.Node) {
	get := func(key string) string {
		text, _ := p.setting(variable, join(path, key), child(body, key))
		return text
	}
	router, ok := p.router(variable, path, given, get("peer_address"), get("peer_asn"), get("my_asn"))
	if !ok {
		return
	}
	p.sessionOf(variable, path, body, &router)
	p.peerSecrets(variable, path, given, body, &router)
	p.inv.Routers = append(p.inv.Routers, router)
}

// setting is a text that is carried over; false: it is not there, or cannot be read.
func (p *ansiblePools) setting(variable ansibleVar, path string, n *yaml.Node) (string, bool) {
	if n == nil {
		return "", false
	}
	text, ok := p.textAt(variable, path, n)
	if ok {
		variable.object.mark(carried, path)
	}
	return text, ok
}

// orDefault returns a setting of a peer's session, or else the default of all peers.
func (p *ansiblePools) orDefault(v ansibleVar, path string, body *yaml.Node, key string) (text, at string, ok bool) {
	n, at := child(body, key), join(path, key)
	if defaults := child(child(v.node, "layer3"), "defaults"); n == nil && defaults != nil {
		n, at = child(defaults, key), v.path()+".layer3.defaults."+key
	}
	text, ok = p.setting(v, at, n)
	return text, at, ok
}

// sessionOf carries over how the session with a peer is held.
func (p *ansiblePools) sessionOf(variable ansibleVar, path string, body *yaml.Node, router *inventory.Router) {
	if text, at, ok := p.orDefault(variable, path, body, "peer_port"); ok {
		if number, err := strconv.ParseUint(text, 10, 16); err == nil && number > 0 {
			router.Port = uint16(number)
		} else {
			p.tellOnce(variable.object, at, NotValid, "is no port: it is 179 in the inventory")
		}
	}
	if text, at, ok := p.orDefault(variable, path, body, "hold_time"); ok {
		if t, err := time.ParseDuration(text); err == nil && t >= 3*time.Second && t <= math.MaxUint16*time.Second && t%time.Second == 0 {
			router.Session.HoldTime = inventory.Some(t)
		} else {
			p.tellOnce(variable.object, at, NoCounterpart, "Plinth has whole seconds from 3 to 65535, and the session gets 9s")
		}
	}
	at := path + ".multihop"
	switch text, ok := p.setting(variable, at, child(body, "multihop")); {
	case !ok:
	case isYes(text):
		router.Session.Multihop = inventory.Some(uint8(farHops))
	default:
		variable.object.mark(meaningless, at)
	}
}

// peerSecrets points at the Secret of a password, which is never printed, and tells what no session of Plinth's has.
func (p *ansiblePools) peerSecrets(variable ansibleVar, path, given string, body *yaml.Node, router *inventory.Router) {
	if n := child(body, "password"); n != nil && n.Value != "" {
		secret, _ := cleanName("bgp-" + given)
		router.Session.Password = inventory.Some(inventory.SecretKey{Secret: secret, Key: "password"})
		p.tellOnce(variable.object, path+".password", ByHand, "a password belongs into a Secret: "+secretCommand(secret))
	}
	p.drop(variable.object, path+".source_address", "sessions come from the machine's address in the router's subnet, else from the first of the router's family")
	p.drop(variable.object, path+".router_id", "the router ID is the machine's first IPv4 address, or made of its name")
}

// longestAggregate is the longest prefix that kubespray makes an advertisement of its own for.
const longestAggregate = 30

// advertisementsOf returns the advertisements of a peer's pools: one, and with aggregation_length each address besides, for the routers alone.
func (p *ansiblePools) advertisementsOf(variable ansibleVar, path string, body *yaml.Node) []inventory.Advertise {
	external, local := newAdvertise(), newAdvertise()
	external.Communities = p.communitiesOf(variable, path+".communities", child(body, "communities"))
	p.drop(variable.object, path+".localpref", "kubespray writes it into a field that MetalLB does not have, so that it is 100: it is in the inventory, too")
	at := path + ".aggregation_length"
	text, ok := p.setting(variable, at, child(body, "aggregation_length"))
	if !ok {
		return []inventory.Advertise{external}
	}
	length, err := strconv.Atoi(text)
	if err != nil || length < 0 || length > longestAggregate {
		p.tellOnce(variable.object, at, NotValid, fmt.Sprintf("kubespray aggregates to prefixes of 0 to %d bits: each address is announced by itself", longestAggregate))
		return []inventory.Advertise{external}
	}
	local.Communities = inventory.CommunitiesOf(p.aliases["no-advertise"])
	external.Aggregate.IPv4 = length
	return []inventory.Advertise{local, external}
}

// communitiesOf returns the communities of a peer's pools, by name or value.
func (p *ansiblePools) communitiesOf(variable ansibleVar, path string, n *yaml.Node) inventory.Communities {
	var all []inventory.Community
	names, paths := p.texts(variable, path, n)
	for i, name := range names {
		community, ok := p.aliases[name]
		if !ok {
			var err error
			if community, err = inventory.ParseCommunity(name); err != nil {
				p.tellOnce(variable.object, paths[i], NotValid, fmt.Sprintf("there is no community that is named %q, and it is none itself: it is left out", name))
				continue
			}
		}
		variable.object.mark(carried, paths[i], join(variable.path()+".layer3.communities", name))
		all = append(all, community)
	}
	return inventory.CommunitiesOf(all...)
}
