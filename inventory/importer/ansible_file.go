package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// ansible is the API group that what Ansible's files say has here: hosts and groups of inventories, and the variables beside them. Ansible
// has no objects; each has a kind, a name, and vars.
const ansible = "ansible"

// The kinds of what Ansible's files say. Of one name, those of files count before those of inventories, and hosts before groups.
const (
	ansibleHostKind  = "host"
	ansibleGroupKind = "group"
	ansibleHostVars  = "host_vars"
	ansibleGroupVars = "group_vars"
)

// ansibleFile reports whether a file of a folder may be an inventory of Ansible's, or variables: those without an ending are the oldest
// form of both. Names with a capital, as of a README, are neither.
func ansibleFile(file string) bool {
	name := path.Base(file)
	return name != "ansible.cfg" && (endsWith(name, ".ini", ".cfg") || path.Ext(name) == "" && !unicode.IsUpper(rune(name[0])))
}

// ansibleText reads files that are known by their path or their first line, and inventories that are no YAML.
func ansibleText(doc document.Document) ([]*object, Notes, bool) {
	note := func(message string) ([]*object, Notes, bool) {
		at := inventory.Position{Source: doc.Source, Line: 1, Column: 1}
		return nil, Notes{{Position: at, Severity: Told, Code: NotRead, Message: message}}, true
	}
	kind, name := ansibleVarsOf(doc.Source)
	switch {
	case bytes.HasPrefix(doc.Data, []byte("$ANSIBLE_VAULT")):
		return note("is encrypted by ansible-vault, and not read. Where addresses, labels or racks of hosts are in it, give a decrypted copy (ansible-vault view)")
	case bytes.HasPrefix(doc.Data, []byte("#!")):
		return note("is a program that makes an inventory, and is not run: give what ansible-inventory -i " + path.Base(doc.Source) + " --list --yaml prints")
	case path.Base(doc.Source) == "ansible.cfg":
		return note("has settings of Ansible's own, and no hosts")
	case kind != "":
		objects, notes := ansibleVarsFile(doc, kind, name)
		return objects, notes, true
	case endsWith(doc.Source, ".yaml", ".yml", ".json"):
		return nil, nil, false
	}
	pages, err := pagesOf(doc.Data)
	text := func(n *yaml.Node) bool { // as [group] is a list of one word
		return n.Kind != yaml.MappingNode && (len(n.Content) == 0 || n.Content[0].Kind != yaml.MappingNode)
	}
	if errors.Is(err, io.EOF) && !slices.ContainsFunc(pages, text) {
		return nil, nil, false
	}
	f := &ansibleInventory{source: doc.Source}
	f.readINI(string(doc.Data))
	return f.objects(), f.notes, true
}

// ansibleVarsOf are the kind and the name that a file of variables has by its path: group_vars/NAME.yml, or any file in group_vars/NAME/.
func ansibleVarsOf(file string) (kind, name string) {
	parts := strings.Split(path.Clean(strings.ReplaceAll(file, "\\", "/")), "/")
	for i := len(parts) - 2; i >= 0; i-- {
		if parts[i] != ansibleGroupVars && parts[i] != ansibleHostVars {
			continue
		}
		name := parts[i+1]
		if i+2 == len(parts) && endsWith(name, ".yaml", ".yml", ".json") {
			name = strings.TrimSuffix(name, path.Ext(name))
		}
		return parts[i], name
	}
	return "", ""
}

// ansibleVarsFile reads variables of a group or host.
func ansibleVarsFile(doc document.Document, kind, name string) (all []*object, notes Notes) {
	pages, err := pagesOf(doc.Data)
	for _, page := range pages {
		switch {
		case page.Kind == yaml.ScalarNode && page.Tag == "!!null":
		case page.Kind != yaml.MappingNode:
			notes = append(notes, ansibleNote(doc.Source, page, Error, NotValid, "is no mapping of variables"))
		default:
			vars, bad := variablesIn(doc.Source, page)
			notes = append(notes, bad...)
			all = append(all, ansibleObject(doc.Source, kind, scalar(name, page.Line, page.Column), nil, nil, vars))
		}
	}
	if !errors.Is(err, io.EOF) {
		notes = append(notes, unreadable(doc.Source, err))
	}
	return all, notes
}

// variableName matches the name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// variablesIn are the variables of a mapping. What has no name of one is left out, and its note does not print it: where the blank behind a
// colon is missing, as in password:x, the value stands in the key.
func variablesIn(source string, given *yaml.Node) (vars *yaml.Node, notes Notes) {
	kept := *given
	kept.Content = nil
	for key, value := range pairs(given) {
		if variableName.MatchString(key.Value) {
			kept.Content = append(kept.Content, key, value)
		} else {
			notes = append(notes, ansibleNote(source, key, Told, NotValid, "is no name of a variable, which has letters, digits and _: it is not read"))
		}
	}
	return &kept, notes
}

func ansibleNote(source string, at *yaml.Node, severity Severity, code Code, message string) Note {
	return Note{Position: inventory.Position{Source: source, Line: at.Line, Column: at.Column}, Severity: severity, Code: code, Message: message}
}

// ansibleObject returns the object of one host or group in a file.
func ansibleObject(source, kind string, name *yaml.Node, groups, children []*yaml.Node, vars *yaml.Node) *object {
	list := func(content []*yaml.Node) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: content}
		if len(content) > 0 {
			n.Line, n.Column = content[0].Line, content[0].Column
		}
		return n
	}
	at := func(value string) *yaml.Node { return scalar(value, name.Line, name.Column) }
	root := mapping("apiVersion", at(ansible+"/v1"), "kind", at(kind), "metadata", mapping("name", name), "groups", list(groups), "children", list(children), "vars", vars)
	all, _ := objectsIn(source, root)
	return all[0]
}

// ansibleInventory is one inventory file of Ansible's.
type ansibleInventory struct {
	source        string
	hosts, groups []*ansibleEntry // in the order in which they are first named
	notes         Notes
}

// ansibleEntry is the entry of one host or group in a file.
type ansibleEntry struct {
	name             *yaml.Node
	groups, children []*yaml.Node
	vars             *yaml.Node
}

func (f *ansibleInventory) refuse(at *yaml.Node, format string, args ...any) {
	f.notes = append(f.notes, ansibleNote(f.source, at, Error, NotValid, fmt.Sprintf(format, args...)))
}

// objects returns the objects of a file. Groups that have hosts alone are in these.
func (f *ansibleInventory) objects() (all []*object) {
	for _, h := range f.hosts {
		all = append(all, ansibleObject(f.source, ansibleHostKind, h.name, h.groups, nil, h.vars))
	}
	for _, g := range f.groups {
		if len(g.children) > 0 || len(g.vars.Content) > 0 {
			all = append(all, ansibleObject(f.source, ansibleGroupKind, g.name, nil, g.children, g.vars))
		}
	}
	return all
}

func entryOf(all *[]*ansibleEntry, name *yaml.Node) *ansibleEntry {
	for _, e := range *all {
		if e.name.Value == name.Value {
			return e
		}
	}
	e := &ansibleEntry{name: scalar(name.Value, name.Line, name.Column), vars: &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}}
	*all = append(*all, e)
	return e
}

// set sets a variable. The last one counts.
func (e *ansibleEntry) set(key, value *yaml.Node) {
	vars := e.vars
	if vars.Line == 0 {
		vars.Line, vars.Column = key.Line, key.Column
	}
	for i := 0; i+1 < len(vars.Content); i += 2 {
		if vars.Content[i].Value == key.Value {
			vars.Content[i+1] = value
			return
		}
	}
	vars.Content = append(vars.Content, key, value)
}

// groupVars sets variables of a group.
func (f *ansibleInventory) groupVars(group, given *yaml.Node) {
	vars, bad := variablesIn(f.source, given)
	f.notes = append(f.notes, bad...)
	for key, value := range pairs(vars) {
		entryOf(&f.groups, group).set(key, value)
	}
}

// addNode adds a name to a list that has it once.
func addNode(all *[]*yaml.Node, name *yaml.Node) {
	if !slices.ContainsFunc(*all, func(n *yaml.Node) bool { return n.Value == name.Value }) {
		*all = append(*all, scalar(name.Value, name.Line, name.Column))
	}
}

// host adds the hosts that a pattern names to a group, with their variables.
func (f *ansibleInventory) host(pattern *yaml.Node, group *yaml.Node, vars *yaml.Node) {
	names, err := ansibleHosts(pattern.Value)
	if err != nil {
		f.refuse(pattern, "%v", err)
		return
	}
	vars, bad := variablesIn(f.source, vars)
	f.notes = append(f.notes, bad...)
	for _, name := range names {
		entry := entryOf(&f.hosts, scalar(name, pattern.Line, pattern.Column))
		if group != nil && group.Value != "all" && group.Value != "ungrouped" {
			addNode(&entry.groups, scalar(group.Value, pattern.Line, pattern.Column))
		}
		for key, value := range pairs(vars) {
			own, _ := plain(value) // of this host, and plain already
			entry.set(key, own)
		}
	}
}

// hostsAtMost bounds how many hosts one pattern names.
const hostsAtMost = 4096

// withPort is a host with a port behind it.
var withPort = regexp.MustCompile(`^(?:\[([^\[\]]*:[^\[\]]*:[^\[\]]*)\]|((?:[^:\[\]]|\[[^\[\]]*\])*)):\d+$`)

// ansibleHosts are the hosts that a pattern names, as w[01:20] and w[a:c], which may have a port. No error has the pattern in it, for a line
// that is broken may be of a password.
func ansibleHosts(pattern string) ([]string, error) {
	if m := withPort.FindStringSubmatch(pattern); m != nil && m[1] != "" {
		pattern = m[1] // an IPv6 address
	} else if m != nil {
		pattern = m[2]
	}
	names, err := expandHosts(pattern)
	for _, name := range names {
		if _, bad := netip.ParseAddr(name); bad != nil && strings.Contains(name, ":") {
			return nil, errors.New("is no name of a host: only an IPv6 address has colons")
		}
	}
	return names, err
}

// expandHosts are the hosts that a pattern without a port names.
func expandHosts(pattern string) ([]string, error) {
	if pattern == "" || strings.ContainsAny(pattern, "{}\"'=,; \t") {
		return nil, errors.New("is no name of a host")
	}
	before, rest, ok := strings.Cut(pattern, "[")
	if !ok {
		return []string{pattern}, nil
	}
	inside, after, ok := strings.Cut(rest, "]")
	if !ok {
		return nil, errors.New("is a name of hosts with a range that has no end")
	}
	values, err := rangeOf(inside)
	if err != nil {
		return nil, err
	}
	ends := []string{""}
	if after != "" {
		if ends, err = expandHosts(after); err != nil {
			return nil, err
		}
	}
	if len(values)*len(ends) > hostsAtMost {
		return nil, fmt.Errorf("names more than %d hosts", hostsAtMost)
	}
	var names []string
	for _, v := range values {
		for _, end := range ends {
			names = append(names, before+v+end)
		}
	}
	return names, nil
}

// rangeOf are the values from first to last of 01:20, 1:9:2 or a:f.
func rangeOf(text string) (values []string, err error) {
	parts := append(strings.Split(text, ":"), "1")
	step, err := strconv.Atoi(parts[2%len(parts)])
	if len(parts) < 3 || len(parts) > 4 || err != nil || step < 1 || step > hostsAtMost {
		return nil, errors.New("is a name of hosts with brackets that have no range: accepted are [first:last] and [first:last:step]")
	}
	letter := func(s string) bool { return len(s) == 1 && unicode.IsLetter(rune(s[0])) }
	if letter(parts[0]) && letter(parts[1]) {
		for c := int(parts[0][0]); c <= int(parts[1][0]); c += step {
			values = append(values, string(rune(c)))
		}
		return values, nil
	}
	return numbersOf(parts[0], parts[1], step)
}

// numbersOf are the numbers of a range of hosts, as wide as the first is where that begins with a zero.
func numbersOf(from, to string, step int) (values []string, err error) {
	first, err := strconv.Atoi("0" + from)
	last, bad := strconv.Atoi(to)
	if err != nil || bad != nil || last < first || last > math.MaxInt32 || (last-first)/step >= hostsAtMost {
		return nil, fmt.Errorf("is a name of hosts with brackets that have no range of at most %d hosts", hostsAtMost)
	}
	width := 1
	if strings.HasPrefix(from, "0") {
		width = len(from)
	}
	for n := first; n <= last; n += step {
		values = append(values, fmt.Sprintf("%0*d", width, n))
	}
	return values, nil
}
