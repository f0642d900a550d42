package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

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
	return isYes(text), ok
}

// isYes reports whether a text says yes, as Ansible takes it.
func isYes(text string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(text))
}

// pools carries over what playbooks give to MetalLB, kube-vip and Cilium.
func (r *ansibleReader) pools() {
	pools := &ansiblePools{ansibleReader: r, aliases: map[string]inventory.Community{}}
	if config := r.shared("metallb_config"); config.node != nil && pools.installed(config) {
		pools.kubespray(config)
	}
	for _, b := range playbookBalancers {
		pools.playbook(b)
	}
	pools.apiServer("kube_vip_address")
	pools.apiServer("apiserver_endpoint")
}

// ansiblePools are pools and routers in the making.
type ansiblePools struct {
	*ansibleReader
	aliases map[string]inventory.Community
}

// installed reports whether MetalLB is, by kubespray, and nobody else tells of it.
func (p *ansiblePools) installed(config ansibleVar) bool {
	if slices.Contains(p.options.Sources, "metallb") {
		p.tellOnce(config.object, config.path(), Differs, "MetalLB's own objects are read, too, and count: nothing of this is added")
		if v := p.shared("metallb_enabled"); v.node != nil {
			v.object.mark(meaningless, v.path())
		}
		return false
	}
	yes, there := p.isTrue("metallb_enabled")
	if there && !yes {
		p.tellOnce(config.object, config.path(), NoCounterpart, "metallb_enabled is not true, so that MetalLB is not installed: nothing of this is carried over")
	}
	return yes || !there
}

// texts are the scalars of a node: one, or those of a list, with their paths.
func (r *ansibleReader) texts(variable ansibleVar, path string, node *yaml.Node) (texts, paths []string) {
	if node == nil {
		return nil, nil
	}
	if node.Kind != yaml.SequenceNode {
		if text, ok := r.textAt(variable, path, node); ok {
			return []string{text}, []string{path}
		}
		return nil, nil
	}
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if text, ok := r.textAt(variable, at, item); ok {
			texts, paths = append(texts, text), append(paths, at)
		}
	}
	return texts, paths
}

// ranges reads the addresses of a pool. Several may stand in one text, with commas or blanks between them.
func (p *ansiblePools) ranges(variable ansibleVar, path string, n *yaml.Node, pool string) (all []inventory.Range) {
	texts, paths := p.texts(variable, path, n)
	for i, text := range texts {
		variable.object.mark(carried, paths[i])
		for part := range strings.SplitSeq(text, ",") {
			one, err := p.takeRange(part, pool)
			if err != nil {
				p.tellOnce(variable.object, paths[i], NotValid, fmt.Sprintf("%v: it is left out", err))
				continue
			}
			all = append(all, one)
		}
	}
	return all
}

// kubespray reads metallb_config.
func (p *ansiblePools) kubespray(variable ansibleVar) {
	object, at := variable.object, variable.path()
	if variable.node.Kind != yaml.MappingNode {
		p.value(variable) // a template, of which a note tells
		return
	}
	object.mark(meaningless, at+".controller", at+".speaker")                                  // where MetalLB's pods run
	object.mark(meaningless, at+".layer3.defaults.peer_port", at+".layer3.defaults.hold_time") // where all peers have their own
	p.communities(variable)
	made := p.kubesprayPools(variable)
	onLink, paths := p.texts(variable, at+".layer2", child(variable.node, "layer2"))
	for i, name := range onLink {
		pool := made[name]
		if pool == nil {
			p.tellOnce(object, paths[i], NotValid, fmt.Sprintf("there is no address pool %q", name))
			continue
		}
		object.mark(carried, paths[i])
		pool.Via = inventory.ViaLink
	}
	p.kubesprayPeers(variable, made)
	for _, pool := range p.inOrder(variable, made) {
		p.add(variable, join(join(at, "address_pools"), pool.name), pool.Pool)
	}
}

// namedPool is a pool by the name that its source gave it.
type namedPool struct {
	*inventory.Pool
	name string
}

// inOrder are the pools as they were written.
func (p *ansiblePools) inOrder(v ansibleVar, made map[string]*inventory.Pool) (all []namedPool) {
	for name := range pairs(child(v.node, "address_pools")) {
		if pool := made[name.Value]; pool != nil {
			all = append(all, namedPool{pool, name.Value})
		}
	}
	return all
}

// kubesprayPools are the pools of metallb_config, without how they are announced.
func (p *ansiblePools) kubesprayPools(variable ansibleVar) map[string]*inventory.Pool {
	made := map[string]*inventory.Pool{}
	for given, body := range pairs(child(variable.node, "address_pools")) {
		path := join(variable.path()+".address_pools", given.Value)
		name, same := p.newName(poolName, given.Value)
		if !same {
			p.note(variable.object, path, Renamed, fmt.Sprintf("Services that ask for the pool by name have to ask for %q", name))
		}
		pool := newPool(name)
		pool.Ranges = p.ranges(variable, path+".ip_range", child(body, "ip_range"), name)
		if n := child(body, "auto_assign"); n != nil {
			variable.object.mark(carried, path+".auto_assign")
			pool.AutoAssign = n.Value != "false" && n.Value != "no"
		}
		p.avoidBuggy(variable.object, path+".avoid_buggy_ips", child(body, "avoid_buggy_ips"), &pool)
		if len(pool.Ranges) == 0 {
			p.tellOnce(variable.object, path, NotValid, "has no address that a pool can have: it is left out")
			continue
		}
		made[given.Value] = &pool
	}
	return made
}

// avoidBuggy excludes addresses that end with .0 and .255.
func (p *ansiblePools) avoidBuggy(object *object, path string, n *yaml.Node, pool *inventory.Pool) {
	if n == nil {
		return
	}
	object.mark(meaningless, path)
	if n.Value != "true" && n.Value != "yes" {
		return
	}
	if pool.Exclude = p.buggy(object, path, pool.Ranges); len(pool.Exclude) > 0 {
		object.mark(carried, path)
	}
}

// router is one, with the AS number of the machines.
func (p *ansiblePools) router(variable ansibleVar, path, given, address, peerASN, myASN string) (router inventory.Router, ok bool) {
	addr, err := netip.ParseAddr(address)
	theirs, bad := strconv.ParseUint(peerASN, 10, 32)
	ours, worse := strconv.ParseUint(myASN, 10, 32)
	if err != nil || bad != nil || worse != nil || theirs == 0 || ours == 0 {
		p.leaveOutRouter(variable.object, path, NotValid, "has no address, or not the AS numbers of both ends: the router is left out")
		return router, false
	}
	if why := p.unusable(addr); why != "" {
		p.leaveOutRouter(variable.object, path, NotValid, fmt.Sprintf("%v %s: the router is left out", addr, why))
		return router, false
	}
	name, same := p.newName(routerName, given)
	if !same {
		p.note(variable.object, path, Renamed, fmt.Sprintf("the router is named %q", name))
	}
	p.peer(peering{router: name, asn: inventory.ASN(ours), object: variable.object, path: path})
	p.comment("spec.routers["+name+"]", variable.object)
	return inventory.Router{Name: name, Addresses: []netip.Addr{addr}, ASN: inventory.ASN(theirs), Port: 179}, true
}

// add puts a pool into the inventory.
func (p *ansiblePools) add(variable ansibleVar, path string, pool *inventory.Pool) {
	if pool.Via == "" && len(pool.Advertise) == 0 {
		p.note(variable.object, path, Differs, "the pool is neither in layer2 nor at a peer, so that MetalLB announces nothing of it; Plinth does. Leave it out, or say state: disabled")
	}
	if pool.Via == inventory.ViaLink {
		placesOf(p.draft, nil).subnetsFor(variable.object, path, pool)
	}
	p.comment("spec.pools["+pool.Name+"]", variable.object)
	p.inv.Pools = append(p.inv.Pools, *pool)
}

// apiServer notes the address of the API server, which no pool may give away.
func (p *ansiblePools) apiServer(name string) {
	variable := p.shared(name)
	text, _ := p.value(variable)
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return
	}
	p.excludes = append(p.excludes, func() {
		message := "the address of the API server: Plinth announces Services alone. Keep kube-vip for it, with svc_enable=false"
		if pools := p.exclude(addr); len(pools) > 0 {
			message += "; it is excluded from pool " + strings.Join(pools, ", ")
		}
		p.tellOnce(variable.object, variable.path(), NoCounterpart, message)
	})
}
