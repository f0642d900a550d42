package takeover

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
	"plinth.dev/plinth/test/guide"
	"plinth.dev/plinth/test/lab"
)

// The guides that are followed.
const (
	onLink  = "migrate-on-link.md"
	overBGP = "migrate-from-metallb.md"
)

// reader follows a guide in a lab: what the guide has one type is run as it is there, with the names of this lab.
type reader struct {
	t      *testing.T
	l      *lab.Lab
	page   string
	folder string
	file   string // of the inventory, in that folder
}

func newReader(t *testing.T, l *lab.Lab, name, inventory string) *reader {
	t.Helper()
	page, err := guide.Read("../../..", name)
	must(t, err)
	r := &reader{t: t, l: l, page: page, folder: t.TempDir(), file: inventory}
	must(t, os.WriteFile(r.inventory(), []byte(lab.Inventory(l.Topology)), 0o600))
	return r
}

func (r *reader) inventory() string { return filepath.Join(r.folder, r.file) }

// follow runs the commands of a section one after the other. Instead of one that begins as some of steps do, it takes that
// step: the lab has no pods, and programs of its own. Each step is taken once at least.
func (r *reader) follow(section string, steps map[string]func(line string)) {
	r.t.Helper()
	text, err := guide.Section(r.page, section)
	must(r.t, err)
	taken := map[string]bool{}
	for _, line := range guide.Lines(text) {
		do := func(line string) { r.types(lab.ControlHost, line) }
		for begin, step := range steps {
			if strings.HasPrefix(line, begin) {
				do, taken[begin] = step, true
			}
		}
		do(line)
	}
	for begin := range steps {
		if !taken[begin] {
			r.t.Fatalf("%q has no command %q", section, begin)
		}
	}
}

// types runs a line at a host, with other words in place of some of the guide's, and returns what it prints.
func (r *reader) types(host, line string, instead ...string) string {
	r.t.Helper()
	out, err := r.l.Shell(r.t.Context(), host, r.folder, strings.NewReplacer(instead...).Replace(line))
	r.t.Logf("$ %s\n%s", line, out)
	must(r.t, err)
	return out
}

// imports has an inventory written from the cluster in the place of this home's: with pools on the link that have all VIPs.
func (r *reader) imports(sources string, vips map[netip.Addr]string) {
	r.t.Helper()
	r.types(lab.ControlHost, "plinth import --name "+r.l.Topology.Name+" "+sources+" cluster > "+r.file+" || test $? = 1") // 1: something was guessed
	r.applies(vips, true)
}

// applies has what was written from the cluster take the place of the lab's inventory. A pool of its has each VIP, on the link or not.
func (r *reader) applies(vips map[netip.Addr]string, onLink bool) {
	r.t.Helper()
	text, err := os.ReadFile(r.inventory())
	must(r.t, err)
	r.t.Logf("imported:\n%s", text)
	inv, problems := document.Parse(document.Document{Source: r.file, Data: text})
	must(r.t, problems.Err())
	for vip := range vips {
		if !slices.ContainsFunc(inv.Pools, func(p inventory.Pool) bool {
			return len(p.Links) > 0 == onLink && slices.ContainsFunc(p.Ranges, func(one inventory.Range) bool { return one.Contains(vip) })
		}) {
			r.t.Errorf("no pool has %v, on the link: %t", vip, onLink)
		}
	}
	must(r.t, r.l.ApplyInventory(r.t.Context(), string(text)))
}

// before follows the guide until another balancer is touched: it finds out which machine has each VIP, and pins the VIP's
// Service to that machine.
func (r *reader) before(vips map[netip.Addr]string, was map[netip.Addr]string) {
	r.t.Helper()
	found := map[netip.Addr]string{}
	r.follow("Before", map[string]func(string){
		"ping ": func(line string) {
			for vip := range vips {
				found[vip] = r.hostOf(r.types(lab.Phone, line, "192.168.1.200", vip.String(), "; ", " || true; ")) // what leads on does not answer the echo
				if found[vip] != was[vip] {
					r.t.Errorf("the guide finds %s at %q, and %s answers for it", vip, found[vip], was[vip])
				}
			}
		},
		"kubectl annotate ": func(line string) {
			for vip, service := range vips {
				r.types(lab.ControlHost, line, " web ", " "+service+" ", "nuc1", found[vip])
			}
		},
	})
}

// after follows the guide once Plinth answers.
func (r *reader) after(vips map[netip.Addr]string) {
	r.t.Helper()
	r.follow("After", map[string]func(string){
		"plinth status": func(string) { keeps(r.t, r.l, vips) },
	})
}

var neighbour = regexp.MustCompile(`lladdr (\S+)`)

// hostOf is the host whose MAC address ip neigh prints.
func (r *reader) hostOf(printed string) string {
	r.t.Helper()
	macs, err := r.l.MACs()
	must(r.t, err)
	found := neighbour.FindStringSubmatch(printed)
	if found == nil {
		r.t.Fatalf("no MAC address in what was printed:\n%s", printed)
	}
	hw, err := net.ParseMAC(found[1])
	must(r.t, err)
	return macs[lab.MAC(hw)]
}

// begins starts Plinth where the guide has its overlay applied.
func (r *reader) begins(vips int) func(string) {
	return func(string) { startPlinth(r.t, r.l, vips) }
}

// put creates objects that another balancer's manifests have: they stand for its pods, of which there are none here.
func (r *reader) put(manifest string) {
	r.t.Helper()
	file := filepath.Join(r.folder, "theirs.yaml")
	must(r.t, os.WriteFile(file, []byte(manifest), 0o600))
	_, err := r.l.Kubectl(r.t.Context(), "apply", "-f", file)
	must(r.t, err)
}

// workload is one of another balancer, that no Node fits.
func workload(kind, namespace, name string) string {
	return `apiVersion: apps/v1
kind: ` + kind + `
metadata: {namespace: ` + namespace + `, name: ` + name + `}
spec:
  selector: {matchLabels: {of: ` + name + `}}
  template:
    metadata: {labels: {of: ` + name + `}}
    spec: {nodeSelector: {nobody: fits}, containers: [{name: one, image: theirs}]}
`
}
