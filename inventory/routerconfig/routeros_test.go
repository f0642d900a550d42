package routerconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// routerOS is as much of RouterOS as our texts use: menus of entries in order, of which
// those of some menus have names that are unique.
type routerOS map[string][]entry

type entry map[string]string

var (
	command   = regexp.MustCompile(`^/(\S+) (add|remove) (.*)$`)
	attribute = regexp.MustCompile(`([a-z][a-z0-9.-]*)=("(?:[^"\\]|\\.)*"|\S+)`)
	find      = regexp.MustCompile(`^\[find where ([a-z-]+)(~|=)"([^"]*)"\]$`)
)

// load runs a text as /import does, which stops at the first error.
func (r routerOS) load(text string) error {
	for _, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := r.run(line); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func (r routerOS) run(line string) error {
	c := command.FindStringSubmatch(line)
	if c == nil {
		return fmt.Errorf("not a command")
	}
	menu := c[1]
	if c[2] == "remove" {
		f := find.FindStringSubmatch(c[3])
		if f == nil {
			return fmt.Errorf("remove of what?")
		}
		r[menu] = slices.DeleteFunc(r[menu], func(e entry) bool {
			if f[2] == "=" {
				return e[f[1]] == f[3]
			}
			return regexp.MustCompile(f[3]).MatchString(e[f[1]])
		})
		return nil
	}
	e := entry{}
	for _, a := range attribute.FindAllStringSubmatch(c[3], -1) {
		e[a[1]] = strings.Trim(a[2], `"`)
	}
	for _, other := range r[menu] {
		if e["name"] != "" && other["name"] == e["name"] {
			return fmt.Errorf("already have such a name")
		}
		if menu == "routing/bgp/connection" && other["remote.address"] == e["remote.address"] && other["local.address"] == e["local.address"] {
			return fmt.Errorf("two connections of the same ends")
		}
	}
	if menu == "routing/bgp/connection" && !slices.ContainsFunc(r["routing/bgp/instance"], func(i entry) bool { return i["name"] == e["instance"] }) {
		return fmt.Errorf("there is no instance %s", e["instance"])
	}
	r[menu] = append(r[menu], e)
	return nil
}

// String prints all entries in their order, menu by menu.
func (r routerOS) String() string {
	var out []string
	for menu, entries := range r {
		if len(entries) > 0 {
			out = append(out, fmt.Sprint(menu, " ", entries))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func TestARouterOSTextLoadsAgain(t *testing.T) {
	for name, text := range texts(t, "routeros") {
		r := routerOS{}
		if err := r.load(text); err != nil {
			t.Fatalf("%s: the first time: %v", name, err)
		}
		once := r.String()
		if err := r.load(text); err != nil {
			t.Errorf("%s: the second time: %v", name, err)
		}
		if twice := r.String(); twice != once {
			t.Errorf("%s: loaded twice it is\n%s\nand once\n%s", name, twice, once)
		}
	}
}

func TestARouterOSTextTakesAwayWhatIsGoneAndNothingElse(t *testing.T) {
	own := `/routing/bgp/instance add name=mine as=65000
/routing/bgp/connection add name=upstream instance=mine remote.address=198.51.100.1 local.address=198.51.100.2
/routing/filter/rule add chain=upstream-out rule="jump plinth-parts"
/ip/route add dst-address=10.0.0.0/8 blackhole comment="mine"
/ip/firewall/address-list add list=mine address=10.0.0.0/8
/routing/bfd/configuration add addresses=198.51.100.1 comment="mine"
`
	all := texts(t, "routeros")
	large, small := all["every-option/edge"], all["homelab/gateway"]
	if large == "" || small == "" {
		t.Fatal("the two texts are not there")
	}
	want := routerOS{}
	if err := want.load(own + small); err != nil {
		t.Fatal(err)
	}
	got := routerOS{}
	for _, text := range []string{own, large, small} {
		if err := got.load(text); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != want.String() {
		t.Errorf("after a larger text it is\n%s\nwant\n%s", got, want)
	}
}

// A connection without its filter would take or send anything: the filters are there
// before it is, and it is gone before they are.
func TestARouterOSConnectionIsNeverWithoutItsFilters(t *testing.T) {
	for name, text := range texts(t, "routeros") {
		first, last := strings.Index(text, "/routing/bgp/connection remove"), strings.LastIndex(text, "/routing/filter/rule")
		added := strings.Index(text, "/routing/bgp/connection add")
		if rules := strings.Index(text, "/routing/filter/rule remove"); first < 0 || rules < first || added < last {
			t.Errorf("%s: connections or rules in the wrong order:\n%s", name, text)
		}
	}
}

// A router ID that nobody chose would take the place of the router's own.
func TestNoRouterIDIsInventedForRouterOS(t *testing.T) {
	text := texts(t, "routeros")["only-ipv6/tor"]
	if strings.Contains(text, "router-id=") || !strings.Contains(text, "NOTE: The inventory has no IPv4 address of the router") {
		t.Errorf("got\n%s", text)
	}
}
