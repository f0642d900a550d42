package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

const shelf = `apiVersion: plinth.dev/v1alpha1
kind: Inventory
metadata: {name: dc1}
spec:
  bgp: {asn: 64514, bfd: fast}
  bfdProfiles: [{name: fast, interval: 100ms, multiplier: 3}]
  routers:
    - {name: tor, addresses: [192.168.1.1, "fd01::1"], asn: 64513}
  racks:
    - name: shelf
      subnets: [192.168.1.0/24, "fd01::/64"]
      machines:
        - {name: w1, addresses: [192.168.1.11, "fd01::11"]}
        - {name: w2, addresses: [192.168.1.12, "fd01::12"]}
  pools:
    - {name: lan, addresses: [192.168.1.200-192.168.1.219], exclude: [192.168.1.219/32], advertise: {via: link}}
    - {name: lan6, addresses: ["fd01::200/120"], advertise: {via: link}}
    - {name: public, addresses: [203.0.113.0/24], advertise: {via: bgp}}
`

// parsed is an inventory.
func parsed(t testing.TB, text string) *inventory.Inventory {
	t.Helper()
	inv, problems := document.Parse(document.Document{Source: "inventory.yaml", Data: []byte(text)})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return inv
}

func on(name, prefix string) Address {
	return Address{Interface: name, Prefix: netip.MustParsePrefix(prefix), Up: true, Carrier: true}
}

func socket(protocol, local, remote, program string) Socket {
	s := Socket{Protocol: protocol, Local: netip.MustParseAddrPort(local), Program: program, PID: 4711}
	if remote != "" {
		s.Remote = netip.MustParseAddrPort(remote)
	}
	return s
}

// healthy are the facts of a machine on which all that checks look at is there, and nothing stands in the way.
func healthy(t testing.TB) *Facts {
	t.Helper()
	inv := parsed(t, shelf)
	m, found := Find(inv, "elsewhere", []Address{on("eth0", "192.168.1.11/24")})
	if !found || m.Name != "w1" {
		t.Fatalf("by its address the machine is %q", m.Name)
	}
	f := &Facts{Host: "w1", Kernel: "6.12.1-amd64", Expected: Expect(inv, m)}
	f.Addresses = []Address{on("eth0", "192.168.1.11/24"), on("eth0", "fd01::11/64"), on("kube-ipvs0", "10.96.0.1/32")}
	f.Sysctls = map[string]string{conntrackCount: "100", conntrackMax: "262144", neighbours4: "1024", neighbours6: "1024", arpIgnore: "1"}
	for _, name := range SysctlsRead([]string{"eth0"}) {
		if f.Sysctls[name] == "" {
			f.Sysctls[name] = "0"
		}
	}
	f.Sockets = []Socket{
		socket("TCP", "127.0.0.1:10268", "", "plinth-agent"), socket("TCP", "[::]:10258", "", "plinth-cloud-controller-manager"),
		socket("TCP", "192.168.1.11:40000", "192.168.1.1:179", "plinth-agent"), socket("UDP", "0.0.0.0:3784", "", "plinth-agent"),
		socket("TCP", "192.168.1.11:10268", "", "exporter"), socket("UDP", "[::]:4784", "", "bfdd"),
	}
	for _, s := range f.Expected.Sessions {
		f.Routers = append(f.Routers, Router{Name: s.Router, Address: s.Address, OnLink: "eth0", Device: "eth0", Asked: true, MAC: "02:00:00:00:00:01", Connect: Accepted})
	}
	f.Asked = []Asked{{Interface: "eth0", Addresses: 4}, {Interface: "eth0", IPv6: true, Addresses: 64}}
	f.Answers = []Answer{{Interface: "eth0", Address: netip.MustParseAddr("192.168.1.201"), MAC: "02:00:00:00:00:12", Machine: true}}
	return f
}

func (f *Facts) setting(name, value, want string) {
	f.Settings = append(f.Settings, doctor.Setting{Name: name, Value: value, Want: want})
}

func printed(all []doctor.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Kind, f.Object, f.Message)
		for _, m := range f.Mend {
			fmt.Fprintf(&b, "    %s\n", m)
		}
	}
	return b.String()
}

func kindsOf(all []doctor.Finding) string {
	var kinds []string
	for _, f := range all {
		kinds = append(kinds, string(f.Kind))
	}
	return strings.Join(kinds, " ")
}

func TestNothingIsFoundOnAHealthyMachine(t *testing.T) {
	if found := Examine(*healthy(t)); len(found) > 0 {
		t.Error(printed(found))
	}
	if found := Examine(Facts{}); len(found) > 0 {
		t.Errorf("on one of which nothing is known: %s", printed(found))
	}
	without := healthy(t)
	without.Expected = nil
	if found := Examine(*without); len(found) > 0 {
		t.Errorf("without an inventory: %s", printed(found))
	}
}

func TestEachTroubleIsFound(t *testing.T) {
	told := map[doctor.Kind]bool{}
	for _, trouble := range troubles {
		f := healthy(t)
		trouble.make(f)
		found := Examine(*f)
		if got := kindsOf(found); got != trouble.want {
			t.Errorf("%s: found %q, want %q\n%s", trouble.name, got, trouble.want, printed(found))
			continue
		}
		for _, f := range found {
			told[f.Kind] = true
			if f.Object != "machine w1" || f.Message == "" || len(f.Mend) == 0 || slices.ContainsFunc(f.Mend, func(m doctor.Mend) bool { return m.Run == "" == (m.Say == "") || m.On != "" }) {
				t.Errorf("%s: %+v", trouble.name, f)
			}
		}
		if !strings.Contains(printed(found), trouble.says) {
			t.Errorf("%s: it does not say %q:\n%s", trouble.name, trouble.says, printed(found))
		}
	}
	for _, c := range checks {
		if !told[c.kind] {
			t.Errorf("%s: no trouble of the table has it", c.kind)
		}
	}
}

// TestNoCommandTakesAnAddressAway: connections of Services may go by it, whoever set it.
func TestNoCommandTakesAnAddressAway(t *testing.T) {
	for _, trouble := range troubles {
		f := healthy(t)
		trouble.make(f)
		for _, found := range Examine(*f) {
			for _, m := range found.Mend {
				if strings.Contains(m.Run, " del ") || strings.ContainsAny(printed([]doctor.Finding{found}), "\r\x1b") || strings.ContainsAny(m.Run+m.Say, "\n") {
					t.Errorf("%s: %q", trouble.name, m)
				}
			}
		}
	}
}

// drawn are facts with some troubles at once.
func drawn(t *testing.T, r *rapid.T) *Facts {
	f := healthy(t)
	for _, which := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(troubles)-1), 0, 4, rapid.ID).Draw(r, "troubles") {
		if f.Expected != nil {
			troubles[which].make(f)
		}
	}
	if rapid.Bool().Draw(r, "unread") {
		f.Unread = []string{"who answers: permission denied"}
	}
	return f
}

// TestABundleHasWhatIsFound is the law that doctor(bundle(x)) = doctor(x).
func TestABundleHasWhatIsFound(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := *drawn(t, r)
		text, err := f.Bundle()
		if err != nil {
			r.Fatal(err)
		}
		again, err := Open(text)
		if err != nil {
			r.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(Examine(f), Examine(again)); diff != "" {
			r.Errorf("on the machine and in the bundle (-machine +bundle): %s\n%s", diff, text)
		}
		if diff := cmp.Diff(f.Unread, again.Unread); diff != "" {
			r.Error(diff)
		}
	})
}

func TestWhatIsNoBundleIsRefused(t *testing.T) {
	for _, text := range []string{"", "x", "apiVersion: plinth.dev/v1alpha1\nkind: DoctorBundle\n", "apiVersion: plinth.dev/v1alpha1\nkind: MachineBundle\nmachine: {passwords: [x]}\n"} {
		if _, err := Open([]byte(text)); !errors.Is(err, doctor.ErrNoBundle) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// answer has a stranger answer on the link, or a machine.
func (f *Facts) answer(address string, machine bool) {
	f.Answers = append(f.Answers, Answer{Interface: "eth0", Address: netip.MustParseAddr(address), MAC: "02:00:00:00:00:aa", Machine: machine})
}

// lose takes addresses of the machine away.
func (f *Facts) lose(gone func(Address) bool) { f.Addresses = slices.DeleteFunc(f.Addresses, gone) }

func isIPv6(a Address) bool { return a.Prefix.Addr().Is6() }

// routed is a router with its session.
type routed struct {
	r *Router
	s *Session
}

func (f *Facts) router(which int) routed {
	return routed{&f.Routers[which], &f.Expected.Sessions[which]}
}

// behind has the router be in no subnet of the machine's.
func (x routed) behind(gateway string) {
	x.r.OnLink, x.r.Gateway, x.r.Asked, x.r.MAC = "", netip.MustParseAddr(gateway), false, ""
}

func (x routed) linkLocal() {
	at := netip.MustParseAddr("fe80::1%eth0")
	x.r.Address, x.s.Address = at, at
}
