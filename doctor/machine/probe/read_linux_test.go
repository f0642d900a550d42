package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plinth.dev/plinth/doctor"
	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/inventory/document"
)

// inTable is an address as proc(5) has it.
func inTable(at string) string {
	a := netip.MustParseAddrPort(at)
	b := a.Addr().AsSlice()
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	return fmt.Sprintf("%X:%04X", b, a.Port())
}

func TestSocketsAreReadFromATable(t *testing.T) {
	line := func(local, remote, state string) string {
		return fmt.Sprintf("   0: %s %s %s 00000000:00000000 00:00000000 00000000     0        0 4711 1 x 100 0 0 10 0\n", inTable(local), inTable(remote), state)
	}
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	for _, c := range []struct{ what, protocol, text, want string }{
		{"one that listens", "TCP", line("0.0.0.0:179", "0.0.0.0:0", listening), "TCP 0.0.0.0:179 invalid AddrPort 4711"},
		{"one of IPv6", "TCP", line("[fd01::11]:40000", "[fd01::1]:179", established), "TCP [fd01::11]:40000 [fd01::1]:179 4711"},
		{"one of IPv4 in a table of IPv6", "TCP", line("[::ffff:10.0.0.1]:40000", "[::ffff:10.0.0.2]:179", established), "TCP 10.0.0.1:40000 10.0.0.2:179 4711"},
		{"one that takes datagrams", "UDP", line("0.0.0.0:3784", "0.0.0.0:0", unconnected), "UDP 0.0.0.0:3784 invalid AddrPort 4711"},
		{"one that sends them", "UDP", line("10.0.0.1:3784", "10.0.0.2:3784", established), ""},
		{"one that connects still", "TCP", line("10.0.0.1:40000", "10.0.0.2:179", "02"), ""},
		{"one of other ports", "TCP", line("0.0.0.0:22", "0.0.0.0:0", listening), ""},
		{"what is none", "TCP", "x\n   0: zz:zz zz:zz 0A 0 0 0 0 0 0 0\n", ""},
	} {
		var got []string
		for _, s := range socketsIn(head+c.text, c.protocol, machine.PortsRead) {
			got = append(got, fmt.Sprintf("%s %v %v %s", s.Protocol, s.Local, s.Remote, s.inode))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	orphan := strings.Replace(line("0.0.0.0:22", "0.0.0.0:0", listening), " 4711 ", " 0 ", 1)
	if got := inodesIn(head + line("0.0.0.0:22", "0.0.0.0:0", listening) + orphan); !slices.Equal(got, []string{"4711"}) {
		t.Errorf("the sockets of processes are %q, want 4711", got)
	}
}

func TestAddressesOfAPoolAreThoseOfTheSubnet(t *testing.T) {
	for _, c := range []struct {
		ranges, exclude string
		subnet          string
		want            string
	}{
		{"192.168.1.200-192.168.1.203", "192.168.1.201/32", "192.168.1.0/24", "3 192.168.1.200 192.168.1.203 false"},
		{"192.168.0.0/16", "", "192.168.1.0/30", "4 192.168.1.0 192.168.1.3 false"},
		{"192.168.1.7/32", "", "192.168.1.0/24", "1 192.168.1.7 192.168.1.7 false"},
		{"fd01::/96", "fd01::10-fd01::ffff:ffdf", "fd01::/64", "48 fd01:: fd01::ffff:ffff false"},
		{"203.0.113.0/24", "", "192.168.1.0/24", "0"},
		{"192.168.1.0/24", "192.168.1.0/24", "192.168.1.0/24", "0"},
		{"192.168.1.0/24 192.168.2.0/24", "", "192.168.0.0/16", "64 192.168.1.0 192.168.2.255 true"},
		{"fd01::/64", "", "fd01::/64", "64 fd01:: fd01::ffff:ffff:ffff:fffe true"},
		{"fd01::/122", "", "fd01::/64", "64 fd01:: fd01::3f false"},
	} {
		all := segments(machine.Pool{Ranges: ranges(t, c.ranges), Exclude: ranges(t, c.exclude)}, netip.MustParsePrefix(c.subnet))
		some, more := spread(all, 64)
		got := fmt.Sprint(len(some))
		if len(some) > 0 {
			got = fmt.Sprint(len(some), some[0], some[len(some)-1], more)
		}
		if got = strings.NewReplacer("{", "", "}", "").Replace(got); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestASampleIsOfThePoolAndHasNoAddressTwice is its law.
func TestASampleIsOfThePoolAndHasNoAddressTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		first := rapid.Uint8().Draw(r, "first")
		last := rapid.Uint8Min(first).Draw(r, "last")
		pool := machine.Pool{Ranges: []inventory.Range{{First: netip.AddrFrom4([4]byte{10, 0, 0, first}), Last: netip.AddrFrom4([4]byte{10, 0, 1, last})}},
			Exclude: []inventory.Range{{First: netip.AddrFrom4([4]byte{10, 0, 0, last}), Last: netip.AddrFrom4([4]byte{10, 0, 1, first})}}}
		size := uint64(0)
		all := segments(pool, netip.MustParsePrefix("10.0.0.0/8"))
		for _, s := range all {
			size += s.Size()
		}
		most := rapid.IntRange(1, 400).Draw(r, "most")
		some, more := spread(all, most)
		seen := map[netip.Addr]bool{}
		for _, a := range some {
			if seen[a] || !pool.Covers(a) {
				r.Errorf("%v of %+v", a, pool)
			}
			seen[a] = true
		}
		if uint64(len(some)) != min(size, uint64(most)) || more != (size > uint64(most)) {
			r.Errorf("%d of %d, more: %v", len(some), size, more)
		}
	})
}

func TestAConnectionThatIsAboutToBeCounts(t *testing.T) {
	for state, want := range map[string]bool{established: true, synSent: true, synReceived: true, listening: false, "06": false} {
		for _, at := range []string{"10.0.0.2:40000", "[::ffff:10.0.0.2]:179"} {
			text := fmt.Sprintf("   0: %s %s %s 0 0 0 0 0 4711\n", inTable("10.0.0.1:41000"), inTable(at), state)
			if got := isConnected(text, netip.MustParseAddr("10.0.0.2")); got != want {
				t.Errorf("%s in state %s: %v", at, state, got)
			}
			if isConnected(text, netip.MustParseAddr("10.0.0.3")) {
				t.Errorf("%s is taken for another", at)
			}
		}
	}
}

func TestFilesThatSetASettingAreFound(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"etc/sysctl.conf":                    "net.ipv4.ip_forward=0\n",
		"etc/sysctl.d/10-x.conf":             "# net.ipv4.ip_forward = 1\n-net/ipv4/ip_forward = 0\nnet.ipv4.ip_forward = 1\nkernel.sysrq=1\n",
		"usr/lib/sysctl.d/10-x.conf":         "net.ipv4.ip_forward = 0\n",
		"etc/sysctl.d/99-zz-plinth-any.conf": "net.ipv4.ip_forward = 1\n",
		"lib/sysctl.d/50-vlan.conf":          "net.ipv4.conf.eth0/100.arp_ignore=1\nnonsense\n",
	} {
		name := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	r := reader{}
	r.facts.Settings = []doctor.Setting{{Name: "net/ipv4/ip_forward"}}
	r.facts.Sysctls = map[string]string{"net/ipv4/conf/eth0.100/arp_ignore": "0"}
	r.sysctlFiles(root)
	got := strings.ReplaceAll(fmt.Sprint(r.facts.SysctlFiles), root, "")
	want := "map[net/ipv4/conf/eth0.100/arp_ignore:[/lib/sysctl.d/50-vlan.conf] net/ipv4/ip_forward:[/etc/sysctl.d/10-x.conf /etc/sysctl.conf]]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAContainerIsToldByWhatMadeIt(t *testing.T) {
	for what, want := range map[string]bool{"": false, ".dockerenv": true, "run/.containerenv": true, "KUBERNETES_SERVICE_HOST": true} {
		root, host := t.TempDir(), ""
		if what == "KUBERNETES_SERVICE_HOST" {
			host = "10.96.0.1"
		} else if name := filepath.Join(root, what); what != "" {
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("KUBERNETES_SERVICE_HOST", host)
		r := reader{}
		if r.container(root); r.facts.Container != want {
			t.Errorf("by %q: %v", what, r.facts.Container)
		}
	}
}

// TestTheLinkOfARouterIsThatOfItsSession: of several subnets that have the router, the longest one otherwise.
func TestTheLinkOfARouterIsThatOfItsSession(t *testing.T) {
	r := reader{}
	for _, at := range []string{"a 10.0.0.11/8", "b 10.1.0.11/16", "c 10.1.0.12/16", "d 10.1.0.13/32"} {
		name, prefix, _ := strings.Cut(at, " ")
		r.facts.Addresses = append(r.facts.Addresses, machine.Address{Interface: name, Prefix: netip.MustParsePrefix(prefix), Up: true})
	}
	for local, want := range map[string]string{"10.0.0.11": "a", "10.1.0.12": "c", "10.1.0.13": "b", "192.0.2.1": "b"} {
		_, at := r.subnetOf(machine.Session{Address: netip.MustParseAddr("10.1.0.1"), Local: netip.MustParseAddr(local)})
		if at.Interface != want {
			t.Errorf("from %s it is %q, want %s", local, at.Interface, want)
		}
	}
}

func ranges(t *testing.T, text string) (all []inventory.Range) {
	t.Helper()
	for _, one := range strings.Fields(text) {
		r, err := document.ParseRange(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
