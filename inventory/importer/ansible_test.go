package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/document"
)

func TestPatternsNameHosts(t *testing.T) {
	for pattern, want := range map[string]string{
		"w1": "w1", "w1:2222": "w1", "w[1:3]": "w1 w2 w3", "w[08:10]": "w08 w09 w10", "w[1:9:4].lan": "w1.lan w5.lan w9.lan", "r[a:b]-[1:2]:22": "ra-1 ra-2 rb-1 rb-2",
		"10.0.0.1": "10.0.0.1", "fd00::1": "fd00::1", "[fd00::1]:22": "fd00::1", "w[:2]": "w0 w1 w2",
	} {
		if got, err := ansibleHosts(pattern); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v %v, not %s", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"", "w[1:3", "w[1]", "w[3:1]", "w[1:2:0]", "w[1:2:x]", "w[a:3]", "w[0:99999]", "w[0:999][0:999]", "{{", "a=b", "w[1:2:3:4]", "w[5:9:9223372036854775807]", "w[9223372036854775800:9223372036854775807:9]"} {
		if got, err := ansibleHosts(pattern); err == nil {
			t.Errorf("%q names %v", pattern, got)
		}
	}
}

func TestLinesAreTakenApartAsByAShell(t *testing.T) {
	for line, want := range map[string]string{
		`w1`: `w1`, `w1  a=1	b=2`: `w1|a=1|b=2`, `w1 a="x y" b='"'`: `w1|a=x y|b="`, `w1 a=1 # b=2`: `w1|a=1`, `w1 a=1#2`: `w1|a=1#2`, `w1 a=x\ y`: `w1|a=x y`, `w1 a=`: `w1|a=`, `"open a`: `open a`, `# all`: ``,
	} {
		var words []string
		for _, w := range iniWords(line) {
			words = append(words, w.text)
		}
		if got := strings.Join(words, "|"); got != want {
			t.Errorf("%s: %s, not %s", line, got, want)
		}
	}
}

func TestFilesOfVariablesAreKnownByTheirPath(t *testing.T) {
	for file, want := range map[string]string{
		"group_vars/all.yml": "group_vars all", "a/b/group_vars/all/net.yml": "group_vars all", "host_vars/w1": "host_vars w1", "host_vars/w1.example.com": "host_vars w1.example.com",
		"host_vars/w1.example.com.yml": "host_vars w1.example.com", "group_vars/a/b/c.json": "group_vars a", "hosts.yml": " ", "group_vars": " ", `c:\x\host_vars\w1.yaml`: "host_vars w1",
	} {
		if kind, name := ansibleVarsOf(file); kind+" "+name != want {
			t.Errorf("%s: %s %s, not %s", file, kind, name, want)
		}
	}
}

func TestFilesOfAFolderAreReadByTheirNames(t *testing.T) {
	for file, want := range map[string]bool{"hosts": true, "a/inventory.ini": true, "old.CFG": true, "ansible.cfg": false, "README": false, "README.md": false, "site.py": false} {
		if got := Reads("nodes", "ansible")(file); got != want {
			t.Errorf("%s: %t", file, got)
		}
	}
	if Reads("nodes", "metallb")("hosts") {
		t.Error("Nodes are read from a file without an ending")
	}
}

// TestWhatCannotBeReadIsSaidWithItsPlace has one mistake a document.
func TestWhatCannotBeReadIsSaidWithItsPlace(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"hosts", "[all]\nw1 foo\n", `hosts:2:4: error[I0004]: is no variable of a host`},
		{"hosts", "[all\nw1\n", `hosts:1:1: error[I0004]: is no section`},
		{"hosts", "[a:b]\nw1\n", `hosts:1:1: error[I0004]: is no section`},
		{"hosts", "[a:vars]\n  w1\n", `hosts:2:3: error[I0004]: is no variable`},
		{"hosts", "w[1:2\n", `hosts:1:1: error[I0004]: is a name of hosts with a range that has no end`},
		{"-", "a: [1\n", `-:1:4: error[I0004]: is no variable`},
		{"hosts", "[all]\nw1:x\n", `hosts:2:1: error[I0004]: is no name of a host: only`},
		{"hosts", "[all]\npassword=x\n", `hosts:2:1: error[I0004]: is no name of a host`},
		{"hosts", "[a:vars]\npassword: x=y\n", `hosts:2:1: note[I0004]: is no name of a variable`},
		{"hosts.yml", "a: {hosts: {w1: {password:x}}}", `hosts.yml:1:18: note[I0004]: is no name of a variable`},
		{"hosts.yml", "a: [1\n", `hosts.yml:2:1: error[I0001]: is not YAML`},
		{"hosts.yml", "a: {hosts: {w1: 1}}", `hosts.yml:1:17: error[I0004]: is no mapping of variables of a host`},
		{"hosts.yml", "a: {hosts: [w1]}", `hosts.yml:1:12: error[I0004]: is no mapping, as hosts`},
		{"hosts.yml", "a: {hosts: {w1: }}\nb: 1", `hosts.yml:2:4: error[I0004]: is no group`},
		{"hosts.yml", "a: {children: 1}", `hosts.yml:1:15: error[I0004]: is no mapping of groups`},
		{"hosts.yml", "a: {hosts: {w1: }, host: {w2: }}", `hosts.yml:1:20: note[I0002]: is nothing that a group has`},
		{"hosts.yml", "a: &a {vars: {x: [*b]}, hosts: &b {w1: {y: *a}}}", `hosts.yml:1:19: error[I0001]: is not YAML: unknown anchor`},
		{"list.json", `{"_meta": {"hostvars": {}}, "all": {"children": ["a"]}}`, `list.json:1:1: error[I0001]: is the form in which programs`},
		{"hosts.yml", "collections: [a]", `hosts.yml:1:1: note[I0001]: is no inventory of Ansible's`},
		{"group_vars/all.yml", "[a]", `group_vars/all.yml:1:1: error[I0004]: is no mapping of variables`},
		{"group_vars/all.yml", "a: [", `group_vars/all.yml:2:1: error[I0001]: is not YAML`},
		{"ec2", "#!/usr/bin/python3\nprint()", `ec2:1:1: note[I0001]: is a program`},
		{"ansible.cfg", "[defaults]\nhost_key_checking = False", `ansible.cfg:1:1: note[I0001]: has settings`},
	} {
		_, notes := readObjects([]document.Document{{Source: c.file, Data: []byte(c.text)}}, "ansible")
		if !slices.ContainsFunc(notes, func(n Note) bool { return strings.HasPrefix(n.String(), c.want) }) {
			t.Errorf("%q: %v, not %s", c.text, notes, c.want)
		}
	}
}

// TestVariablesCountAsAnsibleReadsThem names places of one variable from the weakest to the strongest.
func TestVariablesCountAsAnsibleReadsThem(t *testing.T) {
	weakest := []struct{ file, text string }{
		{"inv/hosts", "[all:vars]\nip=10.0.0.%d\n"},
		{"inv/hosts", "[outer:vars]\nip=10.0.0.%d\n"},
		{"inv/hosts", "[inner:vars]\nip=10.0.0.%d\n"},
		{"inv/group_vars/all.yml", "ip: 10.0.0.%d\n"},
		{"inv/group_vars/outer.yml", "ip: 10.0.0.%d\n"},
		{"inv/group_vars/inner/net.yml", "ip: 10.0.0.%d\n"},
		{"inv/hosts", "[inner]\nw1 ip=10.0.0.%d\n"},
		{"inv/host_vars/w1", "ip: 10.0.0.%d\n"},
	}
	files := map[string]string{"inv/hosts": "[outer:children]\ninner\n[inner]\nw1\n"}
	for i, w := range weakest {
		files[w.file] += fmt.Sprintf(w.text, i+1)
		var docs []document.Document
		for file, text := range files {
			docs = append(docs, document.Document{Source: file, Data: []byte(text)})
		}
		text, notes := Import(Options{Sources: []string{"ansible"}}, docs...)
		if want := fmt.Sprintf("addresses: [10.0.0.%d]", i+1); !strings.Contains(string(text), want) {
			t.Errorf("with %s: not %s: %s %v", w.file, want, text, notes)
		}
	}
}

func TestAliasesAndMergeKeysAreFollowed(t *testing.T) {
	const text = `
all:
  vars: &defaults {rack: r1, zone: a}
  children:
    lab: {hosts: {w1: {<<: *defaults, ip: 10.0.0.1, rack: r2}, w2: *defaults}}
`
	out, notes := Import(Options{Sources: []string{"ansible"}}, document.Document{Source: "hosts.yml", Data: []byte(text)})
	if !strings.Contains(string(out), "- name: r2\n      zone: a\n      machines:\n        # from host/w1") {
		t.Errorf("%s %v", out, notes)
	}
	checkLaw(t, Options{Sources: []string{"ansible"}}, document.Document{Source: "hosts.yml", Data: []byte(text)})
}

func TestADocumentThatGrowsWithoutEndIsRefused(t *testing.T) {
	text := "all: {hosts: {w1: {}}, vars: {a: &a [1,1,1,1,1,1,1,1,1,1]"
	for c := 'b'; c <= 'i'; c++ {
		text += fmt.Sprintf(", %c: &%c [%s]", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	_, notes := readObjects([]document.Document{{Source: "hosts.yml", Data: []byte(text + "}}")}}, "ansible")
	if !notes.Failed() {
		t.Errorf("it is read: %v", notes)
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	const text = `[kube_node]
w1 ip=10.0.0.1 ansible_password=hunter2 ansible_become_pass=hunter2 bmc_password=hunter2 my_token=hunter2 api_key=hunter2 ansible_ssh_private_key_file=/home/a/key secret_dir=/x encrypt_secrets=no
[kube_node:vars]
vault_x=hunter2
metallb_config={"address_pools": {"a": {"ip_range": ["10.8.0.0/28"]}}, "layer3": {"metallb_peers": {"tor": {"peer_address": "10.0.0.254", "peer_asn": 1, "my_asn": 2, "password": "hunter2", "address_pool": ["a"]}}}}
`
	out, notes := Import(Options{Sources: []string{"ansible"}}, document.Document{Source: "hosts", Data: []byte(text)})
	if out == nil || strings.Contains(told(out, notes), "hunter2") {
		t.Errorf("%s", told(out, notes))
	}
	if strings.Contains(told(nil, notes), "encrypt_secrets: a ") || !strings.Contains(told(nil, notes), "secret_dir, encrypt_secrets") {
		t.Errorf("what is no secret is told of as one: %s", told(nil, notes))
	}
	for _, name := range []string{"ansible_password", "ansible_become_pass", "bmc_password", "my_token", "api_key", "tor.password"} {
		if !strings.Contains(told(nil, notes), name+": a ") {
			t.Errorf("%s is not told of: %s", name, told(nil, notes))
		}
	}
}

// TestAValueThatNoInventoryHasIsLeftOutWithANote has lines of one host each, and what is told of it.
func TestAValueThatNoInventoryHasIsLeftOutWithANote(t *testing.T) {
	for line, want := range map[string]string{
		`ip=10.0.0.1 zone='Row A'`:                                `host/w1 vars.zone: "Row A" is no value of a label`,
		`ip=10.0.0.1 node_labels="{'bad key': 'x'}"`:              `bad key=x is no label`,
		`ip=10.0.0.1 node_labels="{'a': 'b c'}"`:                  `a=b c is no label`,
		`ip=10.0.0.1 node_labels=a=b`:                             `is no mapping of labels`,
		`ip=10.0.0.1 node_taints="['a=b c:NoSchedule']"`:          `"a=b c:NoSchedule" is no taint`,
		`ip=10.0.0.1 node_taints="['a:NoExecute','a:NoExecute']"`: `is there twice`,
		`ip=10.0.0.1 node_taints=a:NoExecute`:                     `is no list of taints`,
		`ansible_host=127.0.0.1`:                                  `127.0.0.1 is no address that other machines reach it by`,
		"ip=10.0.0.1\nw2 ip=10.0.0.1":                             `10.0.0.1 is the address of machine w1, too`,
		"ip=10.0.0.1\nW1 ip=10.0.0.2":                             `machine w1 is there already`,
		`ip=10.0.0.1 metal_lb_ip_range=127.0.0.0/30`:              `has addresses that no router carries`,
		`ip=10.0.0.1 metal_lb_ip_range=10.9.0.0/28 metal_lb_mode=bgp metal_lb_bgp_my_asn=1 metal_lb_bgp_peer_asn=2 metal_lb_bgp_peer_address=10.0.0.1`: `10.0.0.1 is the address of machine w1, too: the router is left out`,
		"ip=10.0.0.1 metal_lb_ip_range=10.9.0.0/28\n[all:vars]\nmetal_lb_ip_range=10.8.0.0/28":                                                         `group/all vars.metal_lb_ip_range: is not in use`,
		`ip=10.0.0.1 cilium_bgp=true cilium_bgp_lb_cidr="{'a': 'b'}"`:                                                                                  `is in no form that is read`,
		`ip=10.0.0.1 metallb_config="{{ x }}"`:                                                                                                         `vars.metallb_config: is a template`,
		`ip=10.0.0.1 metallb_config=x`:                                                                                                                 `vars.metallb_config: is in no form`,
		`ip=10.0.0.1 metal_lb_ip_range=10.9.0.0/28 metal_lb_mode=arp`:                                                                                  `"arp" is neither layer2 nor bgp`,
	} {
		docs := document.Document{Source: "hosts", Data: []byte("w1 " + line)}
		out, notes := Import(Options{Sources: []string{"ansible"}}, docs)
		if out == nil || !strings.Contains(told(nil, notes), want) {
			t.Errorf("%s: not %s: %s", line, want, told(out, notes))
		}
		checkLaw(t, Options{Sources: []string{"ansible"}}, docs)
	}
}

func TestOfAHostThatIsANodeTheNodeCounts(t *testing.T) {
	node := document.Document{Source: "nodes.yaml", Data: []byte(`{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 192.0.2.1}]}}`)}
	for hosts, want := range map[string]string{
		"w1 ip=10.0.0.9\n": "machine w1 is there already", "10.0.0.1\n": "machine w1 is there already", "wx ansible_host=10.0.0.1\n": "machine w1 of another source has its address 10.0.0.1",
		"wx ip=\"{{ x }}\" ansible_host=192.0.2.1\n": "machine w1 of another source has its address 192.0.2.1",
	} {
		options := Options{Sources: []string{"nodes", "ansible"}}
		docs := []document.Document{node, {Source: "hosts", Data: []byte("[kube_node]\n" + hosts + "w2 ip=10.0.0.2\n")}}
		out, notes := Import(options, docs...)
		if strings.Count(string(out), "- name: w") != 2 || strings.Contains(string(out), "10.0.0.9") || !strings.Contains(told(nil, notes), want) {
			t.Errorf("%s: %s", hosts, told(out, notes))
		}
		checkLaw(t, options, docs...)
	}
}

func TestPoolsAreReadWhereAllHostsAreNodesOfTheCluster(t *testing.T) {
	options := Options{Sources: []string{"nodes", "ansible"}, RackBy: "row_"}
	node := document.Document{Source: "nodes.yaml", Data: []byte(`{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}`)}
	hosts := "[row_1]\nw1 ip=10.0.0.1\n[kube_node:children]\nrow_1\n[kube_node:vars]\nnode_labels={'a': 'b'}\n"
	for vars, pool := range map[string]string{
		"metal_lb_ip_range=10.9.0.0/28\n": "metallb", "kube_vip_lb_ip_range=10.9.0.0/28\n": "kube-vip", "cilium_bgp=true\ncilium_bgp_lb_cidr=10.9.0.0/28\n": "cilium",
		"metallb_config={'address_pools': {'a': {'ip_range': ['10.9.0.0/28']}}}\n": "a",
	} {
		docs := []document.Document{node, {Source: "hosts", Data: []byte(hosts + vars)}}
		if out, notes := Import(options, docs...); !strings.Contains(string(out), "- name: "+pool+"\n      addresses: [10.9.0.0/28]") {
			t.Errorf("%s: %s", vars, told(out, notes))
		}
		checkLaw(t, options, docs...)
	}
}

func TestGroupsThatAreChildrenOfEachOtherAreRead(t *testing.T) {
	text := "[g0]\nw1 ip=10.0.0.1\n"
	for i := range 5 {
		text += fmt.Sprintf("[g%d:children]\n", i)
		for j := range 5 {
			text += fmt.Sprintf("g%d\n", j)
		}
	}
	checkLaw(t, Options{Sources: []string{"ansible"}}, document.Document{Source: "hosts", Data: []byte(text)})
}

func TestThousandsOfHostsAreRead(t *testing.T) {
	text := "[kube_node]\nw[0:3999] rack=r1\n[etcd]\nw[0:3999]\n[k8s_cluster:children]\nkube_node\n[k8s_cluster:vars]\nmetal_lb_ip_range=10.9.0.0/24\nzone=a\n"
	out, notes := Import(Options{Sources: []string{"ansible"}}, document.Document{Source: "hosts", Data: []byte(text)})
	if n := strings.Count(string(out), "state: planned"); n != 4000 {
		t.Errorf("%d machines: %v", n, notes[len(notes)-1])
	}
}

// TestThousandsOfHostsInHundredsOfGroupsAreRead would take minutes if each membership were tried with all hosts.
func TestThousandsOfHostsInHundredsOfGroupsAreRead(t *testing.T) {
	var text strings.Builder
	for g := range 150 {
		fmt.Fprintf(&text, "[row_%03d]\nw[%d:%d]\n[row_%03d:vars]\nzone=z%d\n", g, 20*g, 20*g+19, g, g)
	}
	text.WriteString("[kube_node:vars]\nmetal_lb_ip_range=10.9.0.0/24\n[kube_node:children]\n")
	for g := range 150 {
		fmt.Fprintf(&text, "row_%03d\n", g)
	}
	out, notes := Import(Options{Sources: []string{"ansible"}, RackBy: "row_"}, document.Document{Source: "hosts", Data: []byte(text.String())})
	if machines, racks := strings.Count(string(out), "state: planned"), strings.Count(string(out), "zone: z"); machines != 3000 || racks != 150 {
		t.Errorf("%d machines in %d racks: %v", machines, racks, notes[len(notes)-1])
	}
}

func FuzzAnsible(f *testing.F) {
	for _, text := range []string{"[a]\nw[1:3] ip=10.0.0.1\n[a:vars]\nx={'a': [1]}\n", "all: {children: {a: {hosts: {w1: {ip: 10.0.0.1}}}}}", "w1 a=\"b # c\n"} {
		f.Add("hosts", text)
	}
	f.Fuzz(func(t *testing.T, file, text string) {
		options := Options{Sources: []string{"ansible"}}
		docs := []document.Document{{Source: file, Data: []byte(text)}}
		out, notes := Import(options, docs...)
		if out == nil && !notes.Failed() {
			t.Errorf("nothing is written, and no note is an error: %v", notes)
		}
		if again := told(Import(options, docs...)); again != told(out, notes) {
			t.Errorf("two imports differ:\n%s\n%s", told(out, notes), again)
		}
	})
}

// TestWordsThatAreQuotedAreReadBack, in each way that a shell has to quote them, with the columns where they begin.
func TestWordsThatAreQuotedAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []iniWord
		line, column := "", 0
		for range rapid.IntRange(1, 4).Draw(t, "words") {
			blanks := rapid.StringMatching(`[ \t]{1,2}`).Draw(t, "blanks")
			text := rapid.StringMatching(`[a#é"'=\\ \t]{0,6}`).Draw(t, "text")
			quote := rapid.SampledFrom([]string{`"`, `'`, ``}).Draw(t, "quote")
			written := quote + iniQuoted(text, quote) + quote
			if written == "" {
				continue
			}
			line, column = line+blanks+written, column+len(blanks)
			want = append(want, iniWord{text, column, quote != ""})
			column += utf8.RuneCountInString(written)
		}
		if got := iniWords(line + " # " + line); len(want) > 0 && !slices.Equal(got, want) {
			t.Fatalf("%s is %+v, not %+v", line, got, want)
		}
	})
}

// iniQuoted writes a text for within quotes: nothing but a quote ends what is within single ones, and a backslash keeps any other character.
func iniQuoted(text, quote string) string {
	if quote == `'` {
		return strings.ReplaceAll(text, `'`, `'\''`)
	}
	var out strings.Builder
	for _, r := range text {
		if quote == "" || strings.ContainsRune(`"\`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
