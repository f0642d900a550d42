package importer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"plinth.dev/plinth/inventory"
)

// global is the namespace of addresses that all Services get which have none of their own namespace.
const global = "global"

// kubeVIPPool is a pool with the setting that it was made of.
type kubeVIPPool struct {
	object *object
	path   string
	pool   inventory.Pool
	global bool
}

// readPools makes pools of the ConfigMap of kube-vip's cloud provider.
func (r *kubeVIPReader) readPools() {
	found := false
	for _, object := range r.of("", "ConfigMap") {
		if namespace := cmp.Or(object.namespace, kubeSystem); namespace+"/"+object.name != r.configMap {
			object.mark(meaningless, "", "metadata.name")
			continue
		}
		found = true
		object.mark(meaningless, "metadata.name")
		data := map[string]string{}
		for _, l := range object.leaves() {
			if key, ok := strings.CutPrefix(l.path, "data."); ok {
				data[key] = l.node.Value
			}
		}
		for _, l := range object.leaves() {
			if key, ok := strings.CutPrefix(l.path, "data."); ok {
				r.setting(object, data, key)
			}
		}
	}
	for _, variable := range r.named {
		if !found {
			r.markAndNote(variable.settings.object, variable.path, NotValid, fmt.Sprintf("%s: ConfigMap %s was not read: give it to the import, too", variable.name, r.configMap))
			continue
		}
		variable.settings.object.mark(carried, variable.path)
	}
	r.orderPools()
}

// setting reads one of the ConfigMap. What is not known is left to be noted.
func (r *kubeVIPReader) setting(object *object, data map[string]string, key string) {
	path, value := "data."+key, data[key]
	kind, namespace, _ := strings.Cut(key, "-")
	switch {
	case key == "skip-end-ips-in-cidr":
		object.mark(meaningless, path) // what it does to a prefix is said there
	case key == "search-order" && value == "desc":
		r.drop(object, path, "Plinth gives the lowest free address of a pool first")
	case key == "search-order":
		object.mark(meaningless, path)
	case strings.HasPrefix(key, "allow-share-"):
		r.dropUnless(object, path, "false", "Services share a VIP where they ask for it: give those of a namespace that are to share one the same annotation plinth.dev/sharing-key")
	case kind == "interface" && namespace != "":
		r.drop(object, path, onItsSubnet)
	case (kind == "cidr" || kind == "range") && namespace != "":
		if why := overridden(data, kind, namespace); why != "" {
			r.markAndNote(object, path, Differs, why)
			return
		}
		r.pool(object, key, value, data["skip-end-ips-in-cidr"] == "true")
	}
}

// overridden returns the reason why kube-vip ignores a setting; empty: it does not.
func overridden(data map[string]string, kind, namespace string) string {
	for _, key := range []string{"cidr-" + namespace, "cidr-" + global} {
		if _, there := data[key]; kind == "range" && there {
			return fmt.Sprintf("kube-vip does not look at it beside %s: it is left out. Where Services have addresses of it, add it to the pool", key)
		}
	}
	return ""
}

// pool adds the addresses of a namespace. Where another namespace has the very same, it is one pool for both.
func (r *kubeVIPReader) pool(object *object, key, value string, skipEnds bool) {
	path := "data." + key
	kind, namespace, _ := strings.Cut(key, "-")
	object.mark(carried, path)
	if strings.TrimSpace(value) == "0.0.0.0/32" {
		r.drop(object, path, "Plinth asks no DHCP server for addresses: give the Services of the namespace a pool, out of what the DHCP server gives")
		return
	}
	ranges := r.rangesOf(object, path, value, skipEnds)
	for i := range r.pools {
		if have := &r.pools[i]; slices.Equal(have.pool.Ranges, ranges) && len(ranges) > 0 {
			have.add(namespace)
			r.comment("spec.pools["+have.pool.Name+"]", object)
			return
		}
	}
	name, _ := r.newName(poolName, namespace)
	ranges = slices.DeleteFunc(ranges, func(one inventory.Range) bool {
		err := r.hold(one, name)
		if err != nil {
			r.markAndNote(object, path, Differs, fmt.Sprintf("%v, and an address lies in one pool: it is left out. Let both namespaces into one pool, or split the range", err))
		}
		return err != nil
	})
	if len(ranges) == 0 {
		if object.fates[path] == carried {
			r.markAndNote(object, path, NotValid, "has no address that a pool can have: it is left out")
		}
		return
	}
	pool := kubeVIPPool{object: object, path: path, pool: newPool(name), global: namespace == global}
	pool.pool.Ranges, pool.pool.Exclude = ranges, r.buggy(object, path, ranges)
	if !pool.global {
		pool.pool.Namespaces = []string{namespace}
	}
	if kind == "cidr" && skipEnds {
		pool.pool.SkipFirstLast = slices.ContainsFunc(ranges, inventory.Range.Is4)
		pool.pool.Exclude = slices.DeleteFunc(pool.pool.Exclude, pool.skips)
	}
	r.comment("spec.pools["+name+"]", object)
	r.pools = append(r.pools, pool)
}

// skips reports whether an address is the first or last of a prefix of a pool that skips these.
func (p kubeVIPPool) skips(a inventory.Range) bool {
	return p.pool.SkipFirstLast && slices.ContainsFunc(p.pool.Ranges, func(r inventory.Range) bool { return r.Overlaps(a) && !r.Inner().Overlaps(a) })
}

// add lets another namespace into a pool.
func (p *kubeVIPPool) add(namespace string) {
	switch {
	case p.global:
	case namespace == global:
		p.global, p.pool.Namespaces = true, nil
	default:
		p.pool.Namespaces = append(p.pool.Namespaces, namespace)
	}
}

// rangesOf reads a list, whose ranges may overlap.
func (r *kubeVIPReader) rangesOf(o *object, path, value string, skipEnds bool) (all []inventory.Range) {
	for text := range strings.SplitSeq(value, ",") {
		one, err := rangeIn(text)
		if err != nil {
			r.markAndNote(o, path, NotValid, fmt.Sprintf("%v: it is left out", err))
			continue
		}
		one.Prefix = one.Prefix && (!skipEnds || one.Is4()) // of IPv6 kube-vip gives the first and last address, too
		all = union(all, one)
	}
	return all
}

// union adds a range to others, and joins those that it overlaps.
func union(all []inventory.Range, one inventory.Range) []inventory.Range {
	i := slices.IndexFunc(all, one.Overlaps)
	if i < 0 {
		return append(all, one)
	}
	have := all[i]
	switch {
	case have.Contains(one.First) && have.Contains(one.Last):
		return all
	case !one.Contains(have.First) || !one.Contains(have.Last):
		one = inventory.Range{First: slices.MinFunc([]netip.Addr{have.First, one.First}, netip.Addr.Compare), Last: slices.MaxFunc([]netip.Addr{have.Last, one.Last}, netip.Addr.Compare)}
	}
	return union(slices.Delete(all, i, i+1), one)
}

// orderPools lets namespaces take addresses of their own before those of all.
func (r *kubeVIPReader) orderPools() {
	if !slices.ContainsFunc(r.pools, func(p kubeVIPPool) bool { return !p.global }) {
		return
	}
	for i := range r.pools {
		if p := &r.pools[i]; p.global {
			p.pool.Priority = 10
			r.note(p.object, p.path, Differs, "a Service of a namespace with a pool of its own gets one of these addresses when its own are used up; kube-vip lets it wait")
		}
	}
}
