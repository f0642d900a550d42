package importer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/document"
)

// secretPlace is a document with SECRET where a password may stand, written as it should be or as people mistype it.
type secretPlace struct{ source, file, text string }

// ansibleLines are lines of an inventory in INI, each with a password.
var ansibleLines = []string{
	"w1 ansible_password=SECRET", "w1 ansible_password='SECRET'", `w1 ansible_password="SECRET" ip=10.0.0.1`, "w1 ansible_password: SECRET", "w1 ansible_password:SECRET", "w1 ansible_password = SECRET", "w1 SECRET",
	"w1 ip=10.0.0.1 unknown=SECRET", "w1 ip=SECRET", "w1 ansible_host=SECRET", "ansible_password=SECRET", "ansible_password:SECRET", "ansible_password: SECRET", "ansible_password = SECRET", "w[1:3] token=SECRET", "w[1:2",
	"w[SECRET]", "w1:SECRET", "[SECRET", "[w1]:SECRET", "[all] ansible_password=SECRET", "[all:SECRET]", "[all:vars] SECRET", `["x", "SECRET"]`, "{'ansible_password': 'SECRET'}",
	`w1 metallb_config="{'layer3': {'metallb_peers': {'tor': {'peer_address': '10.0.0.9', 'password': 'SECRET'}}}}"`, `w1 users="[{'name': 'a', 'password': 'SECRET'}]"`,
}

// ansiblePages are inventories in YAML, and files of variables, each with a password.
var ansiblePages = map[string][]string{
	"hosts.yml": {
		"all: {hosts: {w1: {ansible_password: SECRET}}}", "all: {hosts: {w1: {ansible_password: 'SECRET'}}}", "all: {hosts: {w1: {ansible_password:SECRET}}}", "all: {hosts: {w1: {ansible_password=SECRET}}}", "all:\n  hosts:\n    w1: SECRET",
		"all: {hosts: {w1: [SECRET]}}", "all: {hosts: SECRET}", "all: {hosts: [SECRET]}", "all: {children: SECRET}", "all: {children: {a: SECRET}}", "all: {vars: SECRET}", "all: {vars: {token: \"SECRET\"}}", "all: {hosts: {w1: }, ansible_password:SECRET}",
		"all: {hosts: {w1: }, vars: {token: !vault SECRET}}", "all: {hosts: {w1: }, vars: {x: {password: SECRET}}}", "all:\n  hosts: {w1: }\n  vars:\n    token: SECRET\n    x: 1", "all: {hosts: {w1: {ip: SECRET}}}", "[SECRET]",
		"all: {hosts: {'ansible_password=SECRET': }}", "all: {hosts: {'ansible_password:SECRET': }}",
	},
	"group_vars/all.yml": {"ansible_password: SECRET", "ansible_password: \"SECRET\"", "ansible_password:SECRET", "{ansible_password:SECRET}", "- SECRET", "ansible_password: &SECRET", "ansible_password: *SECRET", "x: {a: [SECRET, {b: SECRET}]}"},
}

// drawPlace draws one of the places.
func drawPlace(t *rapid.T) secretPlace {
	switch rapid.SampledFrom([]string{"ini", "yaml", "bgp_peers"}).Draw(t, "form") {
	case "ini":
		section := rapid.SampledFrom([]string{"", "[all]\n", "[kube_node]\n", "[all:vars]\n", "[x:children]\n", "[broken\n"}).Draw(t, "section")
		return secretPlace{"ansible", "hosts", "w0 ip=10.0.0.9\n" + section + rapid.SampledFrom(ansibleLines).Draw(t, "line") + "\n"}
	case "yaml":
		file := rapid.SampledFrom([]string{"hosts.yml", "group_vars/all.yml"}).Draw(t, "file")
		return secretPlace{"ansible", file, rapid.SampledFrom(ansiblePages[file]).Draw(t, "page")}
	}
	peer := rapid.SampledFrom([]string{"10.0.0.1:65000:SECRET", "10.0.0.1:65000:SECRET:false", "10.0.0.1:65000:SECRET:true:1790:x:true;1;2;3", "[fd00::1]:65000:SECRET", "10.0.0.1::SECRET", "10.0.0.1:65000:x:SECRET", "10.0.0.1:65000:x:true:SECRET:SECRET:SECRET",
		"10.0.0.1:65000:x:true:::true;SECRET;SECRET;SECRET", "SECRET", "SECRET:65000", "[SECRET", "[SECRET]:65000", "unnumbered:SECRET:65000", "10.0.0.1:65000:x,SECRET:65000"}).Draw(t, "peer")
	return secretPlace{"kube-vip", "pod.yml", "apiVersion: v1\nkind: Pod\nmetadata: {name: kube-vip}\nspec:\n  containers:\n  - image: kube-vip\n    env:\n    - {name: svc_enable, value: 'true'}\n    - {name: bgp_enable, value: 'true'}\n    - name: bgp_peers\n      value: |-\n        " + peer}
}

// TestNoPartOfAPasswordIsPrinted draws a password of two parts, with a character between them at which a reader may break it.
func TestNoPartOfAPasswordIsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := drawPlace(t)
		between := rapid.SampledFrom([]string{"", " ", ",", ":", ";", "#", "{", "}", "[", "]", "'", `"`, `\`, "%", "&", "*", "!", ": ", " #", "==", "/", "\t", "{{", "|", "@", "`", "-"}).Draw(t, "between")
		text := strings.ReplaceAll(place.text, "SECRET", "hunter2"+between+"mainsail"+rapid.SampledFrom([]string{"", "=", "==", ",", ":", "'"}).Draw(t, "end"))
		out, notes := Import(Options{Sources: []string{place.source}}, document.Document{Source: place.file, Data: []byte(text)})
		if all := told(out, notes); strings.Contains(all, "hunter2") || strings.Contains(all, "mainsail") {
			t.Errorf("%s\nis told of as\n%s", text, all)
		}
	})
}
