package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"plinth.dev/plinth/doctor/machine"
	"plinth.dev/plinth/inventory"
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
}

func TestAddressesOfAPoolAreThoseOfTheSubnet(t *testing.T) {
	for _, c := range []struct {
		ranges, exclude string
		subnet          string
		want            string
	}{
		{"192.168.1.200-192.168.1.203", "192.168.1.201/32", "192.168.1.0/24", "3 192.168.1.200 192.168.1.203 false"},
		{"192.168.0.0/16", "", "192.168.1.0/30", "4 192.168.1.0 192.168.1.3 false"},
		{"fd01::/96", "fd01::1-fd01::ffff:ff00", "fd01::/64", "256 fd01:: fd01::ffff:ffff false"},
		{"203.0.113.0/24", "", "192.168.1.0/24", "0"},
		{"fd01::/64", "", "fd01::/64", "1024 fd01:: fd01::3ff true"},
		{"fd01::/118", "", "fd01::/64", "1024 fd01:: fd01::3ff false"},
	} {
		p := machine.Pool{Ranges: ranges(t, c.ranges), Exclude: ranges(t, c.exclude)}
		all, more := addressesIn(p, netip.MustParsePrefix(c.subnet))
		got := fmt.Sprint(len(all))
		if len(all) > 0 {
			got = fmt.Sprint(len(all), all[0], all[len(all)-1], more)
		}
		if got = strings.NewReplacer("{", "", "}", "").Replace(got); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func ranges(t *testing.T, text string) (all []inventory.Range) {
	t.Helper()
	for _, one := range strings.Fields(text) {
		r, err := inventory.ParseRange(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}
