package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
)

// shared is a variable of the whole cluster: that of the first Node which has it. Of Nodes that have another one a note tells.
func (r *ansibleReader) shared(name string) (first ansibleVar) {
	r.ofCluster[name] = true
	for _, vars := range r.vars {
		switch v := vars[name]; {
		case v.node == nil:
		case first.node == nil:
			first = v
		case v.object != first.object:
			r.tellOnce(v.object, v.path(), Differs, fmt.Sprintf("other Nodes have another one, at %v, and that is taken", first.object.position(first.path())))
		}
	}
	return first
}

// isTrue reports whether a variable of the cluster says yes, as Ansible takes it, and whether it is there.
func (r *ansibleReader) isTrue(name string) (yes, there bool) {
	v := r.shared(name)
	text, ok := r.value(v)
	if ok {
		v.object.mark(carried, v.path())
	}
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(text)), ok
}

// pools carries over what playbooks give to MetalLB, kube-vip and Cilium.
func (r *ansibleReader) pools() {
	p := &ansiblePools{ansibleReader: r, aliases: map[string]inventory.Community{}}
	if config := r.shared("metallb_config"); config.node != nil && p.installed(config) {
		p.kubespray(config)
	}
	for _, b := range playbookBalancers {
		p.playbook(b)
	}
	p.apiServer("kube_vip_address")
	p.apiServer("apiserver_endpoint")
}

// ansiblePools are pools and routers in the making.
type ansiblePools struct {
	*ansibleReader
	aliases map[string]inventory.Community
}

// installed reports whether MetalLB is, by kubespray, and nobody else tells of it.
func (p *ansiblePools) installed(config ansibleVar) bool {
	yes, there := p.isTrue("metallb_enabled")
	switch {
	case slices.Contains(p.options.Sources, "metallb"):
		p.tellOnce(config.object, config.path(), Differs, "MetalLB's own objects are read, too, and count: nothing of this is added")
	case there && !yes:
		p.tellOnce(config.object, config.path(), NoCounterpart, "metallb_enabled is not true, so that MetalLB is not installed: nothing of this is carried over")
	default:
		return true
	}
	return false
}

// texts are the scalars of a node: one, or those of a list, with their paths.
func (r *ansibleReader) texts(v ansibleVar, path string, n *yaml.Node) (texts, paths []string) {
	if n == nil {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		if text, ok := r.textAt(v, path, n); ok {
			return []string{text}, []string{path}
		}
		return nil, nil
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if text, ok := r.textAt(v, at, item); ok {
			texts, paths = append(texts, text), append(paths, at)
		}
	}
	return texts, paths
}

// ranges reads the addresses of a pool. Several may stand in one text, with commas or blanks between them.
func (p *ansiblePools) ranges(v ansibleVar, path string, n *yaml.Node, pool string) (all []inventory.Range) {
	texts, paths := p.texts(v, path, n)
	for i, text := range texts {
		v.object.mark(carried, paths[i])
		for part := range strings.SplitSeq(text, ",") {
			one, err := p.takeRange(part, pool)
			if err != nil {
				p.tellOnce(v.object, paths[i], NotValid, fmt.Sprintf("%v: it is left out", err))
				continue
			}
			all = append(all, one)
		}
	}
	return all
}

// kubespray reads metallb_config.
func (p *ansiblePools) kubespray(v ansibleVar) {
	o, at := v.object, v.path()
	o.mark(meaningless, at+".controller", at+".speaker") // where MetalLB's pods run
	p.communities(v)
	made := p.kubesprayPools(v)
	onLink, paths := p.texts(v, at+".layer2", child(v.node, "layer2"))
	for i, name := range onLink {
		pool := made[name]
		if pool == nil {
			p.tellOnce(o, paths[i], NotValid, fmt.Sprintf("there is no address pool %q", name))
			continue
		}
		o.mark(carried, paths[i])
		pool.Via = inventory.ViaLink
	}
	p.kubesprayPeers(v, made)
	for _, pool := range p.inOrder(v, made) {
		p.add(v, join(join(at, "address_pools"), pool.name), pool.Pool)
	}
}

// namedPool is a pool by the name that its source gave it.
type namedPool struct {
	*inventory.Pool
	name string
}

// inOrder are the pools as they were written.
func (p *ansiblePools) inOrder(v ansibleVar, made map[string]*inventory.Pool) (all []namedPool) {
	eachOf(child(v.node, "address_pools"), func(name string, _ *yaml.Node) {
		if pool := made[name]; pool != nil {
			all = append(all, namedPool{pool, name})
		}
	})
	return all
}

// eachOf calls a function with each key and value of a mapping.
func eachOf(n *yaml.Node, do func(key string, value *yaml.Node)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		do(n.Content[i].Value, n.Content[i+1])
	}
}

// kubesprayPools are the pools of metallb_config, without how they are announced.
func (p *ansiblePools) kubesprayPools(v ansibleVar) map[string]*inventory.Pool {
	made := map[string]*inventory.Pool{}
	eachOf(child(v.node, "address_pools"), func(given string, body *yaml.Node) {
		path := join(v.path()+".address_pools", given)
		name, same := p.newName(poolName, given)
		if !same {
			p.note(v.object, path, Renamed, fmt.Sprintf("Services that ask for the pool by name have to ask for %q", name))
		}
		pool := newPool(name)
		pool.Ranges = p.ranges(v, path+".ip_range", child(body, "ip_range"), name)
		if n := child(body, "auto_assign"); n != nil {
			v.object.mark(carried, path+".auto_assign")
			pool.AutoAssign = n.Value != "false" && n.Value != "no"
		}
		p.avoidBuggy(v.object, path+".avoid_buggy_ips", child(body, "avoid_buggy_ips"), &pool)
		if len(pool.Ranges) == 0 {
			p.tellOnce(v.object, path, NotValid, "has no address that a pool can have: it is left out")
			return
		}
		made[given] = &pool
	})
	return made
}

// avoidBuggy excludes addresses that end with .0 and .255.
func (p *ansiblePools) avoidBuggy(o *object, path string, n *yaml.Node, pool *inventory.Pool) {
	if n == nil {
		return
	}
	o.mark(meaningless, path)
	if n.Value != "true" && n.Value != "yes" {
		return
	}
	if pool.Exclude = p.buggy(o, path, pool.Ranges); len(pool.Exclude) > 0 {
		o.mark(carried, path)
	}
}

// communities reads names of communities.
func (p *ansiblePools) communities(v ansibleVar) {
	path := v.path() + ".layer3.communities"
	eachOf(child2(v.node, "layer3", "communities"), func(name string, n *yaml.Node) {
		at := join(path, name)
		text, ok := p.textAt(v, at, n)
		if !ok {
			return
		}
		value, err := inventory.ParseCommunity(text)
		if err != nil {
			p.tellOnce(v.object, at, NotValid, fmt.Sprintf("%v: it is left out", err))
			return
		}
		p.aliases[name] = value
	})
}

func child2(n *yaml.Node, key, below string) *yaml.Node {
	if n = child(n, key); n == nil {
		return nil
	}
	return child(n, below)
}

// kubesprayPeers makes routers of the peers, and announces to each the pools that it names.
func (p *ansiblePools) kubesprayPeers(v ansibleVar, made map[string]*inventory.Pool) {
	layer3 := v.path() + ".layer3"
	defaults := child2(v.node, "layer3", "defaults")
	eachOf(child2(v.node, "layer3", "metallb_peers"), func(given string, body *yaml.Node) {
		path := join(layer3+".metallb_peers", given)
		get := func(key string) string {
			n := child(body, key)
			if n == nil {
				return ""
			}
			text, ok := p.textAt(v, join(path, key), n)
			if ok {
				v.object.mark(carried, join(path, key))
			}
			return text
		}
		router, ok := p.router(v, path, given, get("peer_address"), get("peer_asn"), get("my_asn"))
		if !ok {
			return
		}
		p.sessionOf(v, layer3+".defaults", defaults, &router)
		p.peerSecrets(v, path, given, body, &router)
		p.inv.Routers = append(p.inv.Routers, router)
		one := newAdvertise()
		one.Routers, one.Communities = []string{router.Name}, p.communitiesOf(v, path+".communities", child(body, "communities"))
		names, paths := p.texts(v, path+".address_pool", child(body, "address_pool"))
		for i, name := range names {
			switch pool := made[name]; {
			case pool == nil:
				p.tellOnce(v.object, paths[i], NotValid, fmt.Sprintf("there is no address pool %q", name))
			case pool.Via == inventory.ViaLink:
				p.tellOnce(v.object, paths[i], Differs, fmt.Sprintf("pool %s is announced on the link, too (layer2): Plinth announces an address one way, and takes the link", pool.Name))
			default:
				v.object.mark(carried, paths[i])
				pool.Advertise = append(pool.Advertise, one)
			}
		}
	})
}

// router is one, with the AS number of the machines.
func (p *ansiblePools) router(v ansibleVar, path, given, address, peerASN, myASN string) (router inventory.Router, ok bool) {
	addr, err := netip.ParseAddr(address)
	theirs, bad := strconv.ParseUint(peerASN, 10, 32)
	ours, worse := strconv.ParseUint(myASN, 10, 32)
	if err != nil || bad != nil || worse != nil || theirs == 0 || ours == 0 {
		v.object.override(path)
		p.note(v.object, path, NotValid, "has no address, or not the AS numbers of both ends: the router is left out")
		return router, false
	}
	if why := p.unusable(addr); why != "" {
		v.object.override(path)
		p.note(v.object, path, NotValid, fmt.Sprintf("%v %s: the router is left out", addr, why))
		return router, false
	}
	name, same := p.newName(routerName, given)
	if !same {
		p.note(v.object, path, Renamed, fmt.Sprintf("the router is named %q", name))
	}
	p.peer(peering{name, nil, inventory.ASN(ours), v.object, path})
	p.comment("spec.routers["+name+"]", v.object)
	return inventory.Router{Name: name, Addresses: []netip.Addr{addr}, ASN: inventory.ASN(theirs), Port: 179}, true
}

// sessionOf carries over what kubespray says of all sessions.
func (p *ansiblePools) sessionOf(v ansibleVar, path string, n *yaml.Node, router *inventory.Router) {
	if n == nil {
		return
	}
	if port := child(n, "peer_port"); port != nil {
		v.object.mark(carried, path+".peer_port")
		if number, err := strconv.ParseUint(port.Value, 10, 16); err == nil && number > 0 {
			router.Port = uint16(number)
		} else {
			p.tellOnce(v.object, path+".peer_port", NotValid, "is no port: it is 179 in the inventory")
		}
	}
	if hold := child(n, "hold_time"); hold != nil {
		v.object.mark(carried, path+".hold_time")
		if t, err := time.ParseDuration(hold.Value); err == nil && t >= 3*time.Second && t%time.Second == 0 {
			router.Session.HoldTime = inventory.Some(t)
		} else {
			p.tellOnce(v.object, path+".hold_time", NoCounterpart, "Plinth has whole seconds of 3 at least, and sessions get 9s")
		}
	}
}

// peerSecrets points at the Secret of a password, which is never printed, and tells what no session of Plinth's has.
func (p *ansiblePools) peerSecrets(v ansibleVar, path, given string, body *yaml.Node, router *inventory.Router) {
	if n := child(body, "password"); n != nil && n.Value != "" {
		secret, _ := cleanName("bgp-" + given)
		router.Session.Password = inventory.Some(inventory.SecretKey{Secret: secret, Key: "password"})
		p.tellOnce(v.object, path+".password", ByHand, "a password belongs into a Secret: "+secretCommand(secret))
	}
	p.drop(v.object, path+".source_address", "sessions come from the machine's address in the router's subnet, else from the first of the router's family")
	p.drop(v.object, path+".router_id", "the router ID is the machine's first IPv4 address, or made of its name")
}

// communitiesOf are those that a peer is sent, by name or value.
func (p *ansiblePools) communitiesOf(v ansibleVar, path string, n *yaml.Node) inventory.Communities {
	var all []inventory.Community
	names, paths := p.texts(v, path, n)
	for i, name := range names {
		c, ok := p.aliases[name]
		if !ok {
			var err error
			if c, err = inventory.ParseCommunity(name); err != nil {
				p.tellOnce(v.object, paths[i], NotValid, fmt.Sprintf("there is no community that is named %q, and it is none itself: it is left out", name))
				continue
			}
		}
		v.object.mark(carried, paths[i], join(v.path()+".layer3.communities", name))
		all = append(all, c)
	}
	return inventory.CommunitiesOf(all...)
}

// add puts a pool into the inventory.
func (p *ansiblePools) add(v ansibleVar, path string, pool *inventory.Pool) {
	if pool.Via == "" && len(pool.Advertise) == 0 {
		p.note(v.object, path, Differs, "the pool is neither in layer2 nor at a peer, so that MetalLB announces nothing of it; Plinth does. Leave it out, or say state: disabled")
	}
	if pool.Via == inventory.ViaLink {
		placesOf(p.draft, nil).subnetsFor(v.object, path, pool)
	}
	p.comment("spec.pools["+pool.Name+"]", v.object)
	p.inv.Pools = append(p.inv.Pools, *pool)
}

// apiServer tells of the address of the API server, which no pool may give away.
func (p *ansiblePools) apiServer(name string) {
	v := p.shared(name)
	text, _ := p.value(v)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	p.excludes = append(p.excludes, func() {
		message := "the address of the API server: Plinth announces Services alone. Keep kube-vip for it, with svc_enable=false"
		if pools := p.exclude(addr); len(pools) > 0 {
			message += "; it is excluded from pool " + strings.Join(pools, ", ")
		}
		p.tellOnce(v.object, v.path(), NoCounterpart, message)
	})
}
