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
	if root.Kind != yaml.MappingNode {
		return false
	}
	for i := 1; i < len(root.Content); i += 2 {
		if slices.ContainsFunc(groupKeys, func(key string) bool { return child(root.Content[i], key) != nil }) {
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
	for i := 0; i+1 < len(all.Content); i += 2 {
		name := all.Content[i]
		if parent != nil && parent.Value != "all" {
			addNode(&entryOf(&f.groups, parent).children, name)
		}
		f.groupIn(name, all.Content[i+1])
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
	for i := 0; i+1 < len(body.Content); i += 2 {
		key, value := body.Content[i], body.Content[i+1]
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
	for i := 0; i+1 < len(hosts.Content); i += 2 {
		name, vars := hosts.Content[i], hosts.Content[i+1]
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
