package importer

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// ansiblePage reads an inventory in YAML: groups with hosts, children and vars. What has a kind is of Kubernetes.
func ansiblePage(source string, root *yaml.Node) ([]*object, Notes, bool) {
	if child(root, "kind") != nil || root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil, false
	}
	tell := func(severity Severity, message string) ([]*object, Notes, bool) {
		return nil, Notes{ansibleNote(source, root, severity, NotRead, message)}, true
	}
	if plugin := child(root, "plugin"); plugin != nil {
		return tell(Told, fmt.Sprintf("asks the plugin %s for an inventory, which is not run: give what ansible-inventory -i FILE --list --yaml prints", plugin.Value))
	}
	if child(root, "_meta") != nil {
		return tell(Error, "is the form in which programs tell Ansible of an inventory: give what ansible-inventory --list --yaml prints")
	}
	if !isAnsible(root) {
		return tell(Told, "is no inventory of Ansible's, which has groups with hosts, children and vars; it is not read")
	}
	f := &ansibleInventory{source: source}
	f.groupsIn(root, nil)
	return f.objects(), f.notes, true
}

// groupKeys are the keys of a group in YAML.
var groupKeys = []string{"hosts", "children", "vars"}

// isAnsible reports whether a document is of groups: one of them has something that groups have, and none has other things alone.
func isAnsible(root *yaml.Node) bool {
	for _, body := range pairs(root) {
		if slices.ContainsFunc(groupKeys, func(key string) bool { return child(body, key) != nil }) {
			return true
		}
	}
	return false
}

// groupsIn reads groups, which are children of another one, or of none.
func (f *ansibleInventory) groupsIn(all *yaml.Node, parent *yaml.Node) {
	if all.Kind != yaml.MappingNode {
		if all.Tag != "!!null" {
			f.refuse(all, "is no mapping of groups")
		}
		return
	}
	for name, body := range pairs(all) {
		if parent != nil && parent.Value != "all" {
			addNode(&entryOf(&f.groups, parent).children, name)
		}
		f.groupIn(name, body)
	}
}

// groupIn reads one group.
func (f *ansibleInventory) groupIn(name, body *yaml.Node) {
	entryOf(&f.groups, name)
	if body.Kind != yaml.MappingNode {
		if body.Tag != "!!null" {
			f.refuse(body, "is no group: accepted are hosts, children and vars")
		}
		return
	}
	for key, value := range pairs(body) {
		switch {
		case !slices.Contains(groupKeys, key.Value):
			f.notes = append(f.notes, ansibleNote(f.source, key, Told, UnknownField, "is nothing that a group has: it is not read. Accepted are hosts, children and vars"))
		case value.Tag == "!!null":
		case key.Value == "children":
			f.groupsIn(value, name)
		case value.Kind != yaml.MappingNode:
			f.refuse(value, "is no mapping, as %s of a group have to be", key.Value)
		case key.Value == "vars":
			f.groupVars(name, value)
		default:
			f.hostsIn(name, value)
		}
	}
}

// hostsIn reads the hosts of a group.
func (f *ansibleInventory) hostsIn(group, hosts *yaml.Node) {
	for name, vars := range pairs(hosts) {
		if vars.Kind != yaml.MappingNode {
			if vars.Tag != "!!null" {
				f.refuse(vars, "is no mapping of variables of a host")
				continue
			}
			vars = &yaml.Node{Kind: yaml.MappingNode}
		}
		f.host(name, group, vars)
	}
}
