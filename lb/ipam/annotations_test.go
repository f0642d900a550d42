package ipam

import (
	"net/netip"
	"plinth.dev/plinth/lb"
	"strings"
	"testing"
	"unicode"
)

func TestAskOfTakesTheFirstAnnotationThatSaysSomething(t *testing.T) {
	for _, tt := range []struct {
		name                       string
		annotations                map[string]string
		loadBalancerIP             string
		wantPool, wantIPs, wantKey string
	}{
		{name: "nothing asked"},
		{name: "our own names", annotations: map[string]string{"plinth.dev/pool": "public", "plinth.dev/ips": "192.0.2.1, 2001:db8::1", "plinth.dev/sharing-key": "k"},
			wantPool: "public", wantIPs: "192.0.2.1,2001:db8::1", wantKey: "k"},
		{name: "MetalLB's names", annotations: map[string]string{"metallb.io/address-pool": "p", "metallb.io/loadBalancerIPs": "192.0.2.1", "metallb.io/allow-shared-ip": "k"},
			wantPool: "p", wantIPs: "192.0.2.1", wantKey: "k"},
		{name: "MetalLB's old names", annotations: map[string]string{"metallb.universe.tf/address-pool": "p", "metallb.universe.tf/loadBalancerIPs": "192.0.2.1", "metallb.universe.tf/allow-shared-ip": "k"},
			wantPool: "p", wantIPs: "192.0.2.1", wantKey: "k"},
		{name: "Cilium's names", annotations: map[string]string{"lbipam.cilium.io/ips": "192.0.2.1,2001:db8::1", "lbipam.cilium.io/sharing-key": "k"},
			wantIPs: "192.0.2.1,2001:db8::1", wantKey: "k"},
		{name: "Cilium's old names", annotations: map[string]string{"io.cilium/lb-ipam-ips": "192.0.2.1,2001:db8::1", "io.cilium/lb-ipam-sharing-key": "k"},
			wantIPs: "192.0.2.1,2001:db8::1", wantKey: "k"},
		{name: "Cilium's new names come before its old ones", annotations: map[string]string{"io.cilium/lb-ipam-ips": "192.0.2.1", "lbipam.cilium.io/ips": "192.0.2.2"}, wantIPs: "192.0.2.2"},
		{name: "PureLB's names", annotations: map[string]string{"purelb.io/service-group": "p", "purelb.io/addresses": "192.0.2.1,2001:db8::1", "purelb.io/allow-shared-ip": "k"},
			wantPool: "p", wantIPs: "192.0.2.1,2001:db8::1", wantKey: "k"},
		{name: "Calico's name, a list of JSON", annotations: map[string]string{"projectcalico.org/loadBalancerIPs": `["192.0.2.1","2001:db8::1"]`}, wantIPs: "192.0.2.1,2001:db8::1"},
		{name: "LoxiLB's name", annotations: map[string]string{"loxilb.io/staticIP": "192.0.2.1"}, wantIPs: "192.0.2.1"},
		{name: "theirs come in the order of the reference", annotations: map[string]string{"loxilb.io/staticIP": "192.0.2.4", "projectcalico.org/loadBalancerIPs": `["192.0.2.3"]`,
			"purelb.io/addresses": "192.0.2.2", "kube-vip.io/loadbalancerIPs": "192.0.2.1"}, wantIPs: "192.0.2.1"},
		{name: "kube-vip's name", annotations: map[string]string{"kube-vip.io/loadbalancerIPs": "192.0.2.1"}, wantIPs: "192.0.2.1"},
		{name: "spec.loadBalancerIP comes last", loadBalancerIP: "192.0.2.9", wantIPs: "192.0.2.9"},
		{name: "an annotation comes before spec.loadBalancerIP", annotations: map[string]string{"kube-vip.io/loadbalancerIPs": "192.0.2.1"}, loadBalancerIP: "192.0.2.9", wantIPs: "192.0.2.1"},
		{name: "ours comes before theirs", annotations: map[string]string{"plinth.dev/pool": "a", "metallb.io/address-pool": "b"}, wantPool: "a"},
		{name: "new comes before old", annotations: map[string]string{"metallb.io/address-pool": "a", "metallb.universe.tf/address-pool": "b"}, wantPool: "a"},
		{name: "an empty one says nothing", annotations: map[string]string{"plinth.dev/pool": " ", "metallb.io/address-pool": "b"}, wantPool: "b"},
		{name: "a long way to write an address is the same address", annotations: map[string]string{"plinth.dev/ips": "2001:0DB8:0:0::0001"}, wantIPs: "2001:db8::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ask, key := AskOf(tt.annotations, tt.loadBalancerIP)
			if len(ask.Invalid) > 0 {
				t.Fatalf("refused: %v", ask.Invalid)
			}
			if got := list(ask.Addrs); ask.Pool != tt.wantPool || got != tt.wantIPs || key != tt.wantKey {
				t.Errorf("pool %q, addresses %q, key %q; want %q, %q, %q", ask.Pool, got, key, tt.wantPool, tt.wantIPs, tt.wantKey)
			}
		})
	}
}

func list(addrs []netip.Addr) string {
	var s []string
	for _, a := range addrs {
		s = append(s, a.String())
	}
	return strings.Join(s, ",")
}

func TestAskOfRefusesHostileSpellings(t *testing.T) {
	for _, ips := range []string{
		"::ffff:10.10.1.1", "::ffff:a0a:101", "0:0:0:0:0:ffff:10.10.1.1", // IPv4-mapped
		"010.10.1.1", "10.10.1.01", "0x0a.10.1.1", "168427777", "10.10.257", // what inet_aton reads otherwise
		"fe80::1%eth0", "2001:db8::1%1", "fe80::1",
		"0.0.0.0", "::", "127.0.0.1", "::1", "255.255.255.255", "169.254.1.1",
		"224.0.0.5", "239.1.1.1", "ff02::1",
		"192.0.2.1/32", "192.0.2.1:80", "[2001:db8::1]", "192.0.2.1;192.0.2.2", "192.0.2.1-192.0.2.9",
		"192.0.2.1,", ",", "192.0.2.1,192.0.2.1", "192.0.2.1,2001:db8::1,2001:DB8::0001", "192.0.2.1,x",
		"１９２.0.2.1", "192.0.2.1\x00", "192.0.2.1\n192.0.2.2", "example.com",
		strings.Repeat("1", 300),
	} {
		for _, ask := range []Ask{asked(map[string]string{IPsAnnotation: ips}, ""), asked(nil, ips)} {
			if len(ask.Addrs) > 0 || len(ask.Invalid) == 0 || ask.Invalid[0].Reason != lb.AddressInvalid {
				t.Errorf("%q: addresses %v, refused for %v", ips, ask.Addrs, ask.Invalid)
			}
		}
	}
}

func TestAskOfRefusesAnOddListOfCalico(t *testing.T) {
	for _, ips := range []string{"192.0.2.1", `"192.0.2.1"`, `["192.0.2.1"`, `["192.0.2.1", 7]`, `["192.0.2.1,192.0.2.2"]`, `["::ffff:192.0.2.1"]`} {
		if ask := asked(map[string]string{"projectcalico.org/loadBalancerIPs": ips}, ""); len(ask.Addrs) > 0 || len(ask.Invalid) == 0 {
			t.Errorf("%q: %+v", ips, ask)
		}
	}
}

func asked(annotations map[string]string, loadBalancerIP string) Ask {
	ask, _ := AskOf(annotations, loadBalancerIP)
	return ask
}

func TestAskOfRefusesAnUnprintableSharingKey(t *testing.T) {
	for _, key := range []string{"a\nb", "\x1b[31m", strings.Repeat("k", 254)} {
		ask, got := AskOf(map[string]string{SharingAnnotation: key}, "")
		if got != "" || len(ask.Invalid) != 1 || ask.Invalid[0].Reason != lb.SharingKeyInvalid {
			t.Errorf("%q: key %q, refused for %v", key, got, ask.Invalid)
		}
	}
}

func FuzzAskOf(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.1,2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0", ",,", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ask, key := AskOf(map[string]string{"lbipam.cilium.io/ips": s, "metallb.io/allow-shared-ip": s}, s)
		if len(key) > 253 || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q gives the odd sharing key %q", s, key)
		}
		if len(ask.Addrs) > 2 || len(ask.Invalid) > 0 && len(ask.Addrs) > 0 {
			t.Errorf("%q: %v, %v", s, ask.Addrs, ask.Invalid)
		}
		for _, a := range ask.Addrs {
			if back, err := netip.ParseAddr(a.String()); err != nil || back != a || a.Zone() != "" || a.Is4In6() {
				t.Errorf("%q gives the odd address %v", s, a)
			}
			if a.IsMulticast() || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() {
				t.Errorf("%q gives %v, which is nobody's VIP", s, a)
			}
		}
	})
}
