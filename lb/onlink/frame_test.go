package onlink

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	macA, macB = MAC{2, 0, 0, 0, 0, 0xa}, MAC{2, 0, 0, 0, 0, 0xb}
	vip4, him4 = netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("192.0.2.7")
	vip6, him6 = netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("2001:db8::7")
	no4, no6   = netip.IPv4Unspecified(), netip.IPv6Unspecified()
	none       netip.Addr
)

// fromHex reads frames as tcpdump -xx prints them.
func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFramesAreWhatTheRFCsSay(t *testing.T) {
	for _, c := range []struct{ name, frame, want string }{
		{"an ARP announcement", hex.EncodeToString(announcement(macA, vip4)),
			"ffffffffffff 02000000000a 0806 0001 0800 06 04 0001 02000000000a c0000264 000000000000 c0000264"},
		{"a gratuitous ARP reply", hex.EncodeToString(gratuitousReply(macA, vip4)),
			"ffffffffffff 02000000000a 0806 0001 0800 06 04 0002 02000000000a c0000264 02000000000a c0000264"},
		{"an ARP request", hex.EncodeToString(question(macA, him4, vip4, MAC{})),
			"ffffffffffff 02000000000a 0806 0001 0800 06 04 0001 02000000000a c0000207 000000000000 c0000264"},
		{"an ARP probe", hex.EncodeToString(question(macA, no4, vip4, MAC{})),
			"ffffffffffff 02000000000a 0806 0001 0800 06 04 0001 02000000000a 00000000 000000000000 c0000264"},
		{"an unsolicited neighbour advertisement", hex.EncodeToString(announcement(macA, vip6)),
			"333300000001 02000000000a 86dd 60000000 0020 3a ff 20010db8000000000000000000000100 ff020000000000000000000000000001" +
				"88 00 f723 20000000 20010db8000000000000000000000100 02 01 02000000000a"},
		{"a neighbour solicitation", hex.EncodeToString(question(macA, him6, vip6, MAC{})),
			"3333ff000100 02000000000a 86dd 60000000 0020 3a ff 20010db8000000000000000000000007 ff0200000000000000000001ff000100" +
				"87 00 1a1c 00000000 20010db8000000000000000000000100 01 01 02000000000a"},
		{"a solicitation of DAD", hex.EncodeToString(question(macA, no6, vip6, MAC{})),
			"3333ff000100 02000000000a 86dd 60000000 0018 3a ff 00000000000000000000000000000000 ff0200000000000000000001ff000100" +
				"87 00 4aef 00000000 20010db8000000000000000000000100"},
	} {
		if want := hex.EncodeToString(fromHex(t, c.want)); c.frame != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.frame, want)
		}
	}
}

func TestWhatIsAskedAndSaid(t *testing.T) {
	nud := solicitation(macA, macB, him6, vip6, vip6)
	nud = nud[:len(nud)-8] // without its option
	nud[19] = ndLength
	nud = withChecksum(nud)
	for _, c := range []struct {
		name  string
		frame []byte
		want  packet
	}{
		{"an ARP request", question(macB, him4, vip4, MAC{}), packet{macB, him4, vip4, him4, false}},
		{"an ARP probe", question(macB, no4, vip4, MAC{}), packet{macB, no4, vip4, none, false}},
		{"an ARP announcement", announcement(macB, vip4), packet{macB, vip4, none, vip4, false}},
		{"a gratuitous ARP reply", gratuitousReply(macB, vip4), packet{macB, vip4, none, vip4, true}},
		{"an ARP reply", arp(macA, arpReply, macB, vip4, macA, him4), packet{macB, vip4, none, vip4, true}},
		{"a solicitation", question(macB, him6, vip6, MAC{}), packet{macB, him6, vip6, him6, false}},
		{"NUD without its option", nud, packet{macB, him6, vip6, him6, false}},
		{"DAD", question(macB, no6, vip6, MAC{}), packet{macB, no6, vip6, none, false}},
		{"an unsolicited advertisement", announcement(macB, vip6), packet{macB, vip6, none, vip6, true}},
		{"an advertisement", advertisement(macA, him6, flagSolicited, vip6, macB), packet{macB, vip6, none, vip6, true}},
		{"padding after ARP", append(question(macB, him4, vip4, MAC{}), make([]byte, 18)...), packet{macB, him4, vip4, him4, false}},
		{"padding after IPv6", append(slices.Clone(nud), make([]byte, 9)...), packet{macB, him6, vip6, him6, false}},
	} {
		if got, ok := parse(c.frame); !ok || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, ok, c.want)
		}
	}
}

// withChecksum corrects the checksum of a frame with an ICMPv6 message.
func withChecksum(frame []byte) []byte {
	m := frame[etherHeader+ipv6Header:]
	m[2], m[3] = 0, 0
	sum := checksum(netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54])), m)
	m[2], m[3] = byte(sum>>8), byte(sum)
	return frame
}

func TestInvalidFramesSayNothing(t *testing.T) {
	changed := func(frame []byte, at int, to ...byte) []byte {
		copy(frame[at:], to)
		if frame[12] == 0x86 {
			return withChecksum(frame)
		}
		return frame
	}
	ns, dad := func() []byte { return question(macB, him6, vip6, MAC{}) }, func() []byte { return question(macB, no6, vip6, MAC{}) }
	na, request := func() []byte { return announcement(macB, vip6) }, func() []byte { return question(macB, him4, vip4, MAC{}) }
	wrongSum := ns()
	wrongSum[56]++
	for name, frame := range map[string][]byte{
		"nothing":                                nil,
		"an Ethernet header alone":               request()[:14],
		"an ARP packet that is cut off":          request()[:41],
		"another EtherType":                      changed(request(), 12, 0x88, 0xcc),
		"another hardware type":                  changed(request(), 15, 6),
		"another protocol":                       changed(request(), 16, 0x86, 0xdd),
		"another length":                         changed(request(), 18, 8),
		"reverse ARP":                            changed(request(), 21, 3),
		"a multicast MAC as sender of ARP":       changed(request(), 22, 1),
		"no MAC as sender of ARP":                changed(request(), 22, make([]byte, 6)...),
		"a hop limit that a router has lowered":  changed(ns(), 21, 254),
		"another next header":                    changed(ns(), 20, 17),
		"IPv4 behind the EtherType of IPv6":      changed(ns(), 14, 0x45),
		"a code":                                 changed(ns(), 55, 1),
		"a router solicitation":                  changed(ns(), 54, 133),
		"a wrong checksum":                       wrongSum,
		"a length beyond the frame":              changed(ns(), 18, 1, 0),
		"a length below a solicitation":          changed(ns(), 18, 0, 23),
		"a multicast target":                     changed(ns(), 62, 0xff),
		"the unspecified target":                 changed(ns(), 62, make([]byte, 16)...),
		"a multicast source":                     changed(ns(), 22, 0xff),
		"an option without a length":             changed(ns(), 79, 0),
		"an option that does not fit":            changed(ns(), 79, 2),
		"a multicast MAC in the option":          changed(ns(), 80, 1),
		"DAD with an option":                     changed(ns(), 22, make([]byte, 16)...),
		"DAD that is sent to another group":      changed(dad(), 53, 9),
		"an advertisement without a source":      changed(na(), 22, make([]byte, 16)...),
		"a solicited advertisement to everybody": changed(na(), 58, 0x60),
	} {
		if p, ok := parse(frame); ok {
			t.Errorf("%s: got %+v", name, p)
		}
	}
}

func TestAnswers(t *testing.T) {
	owns := func(a netip.Addr) bool { return a == vip4 || a == vip6 }
	for _, c := range []struct {
		name      string
		question  []byte
		want      []byte
		isSilence bool
	}{
		{name: "an ARP request", question: question(macB, him4, vip4, MAC{}), want: arp(macB, arpReply, macA, vip4, macB, him4)},
		{name: "an ARP probe", question: question(macB, no4, vip4, MAC{}), want: arp(macB, arpReply, macA, vip4, macB, no4)},
		{name: "a solicitation", question: question(macB, him6, vip6, MAC{}), want: advertisement(macB, him6, flagSolicited|flagOverride, vip6, macA)},
		{name: "DAD", question: question(macB, no6, vip6, MAC{}), want: advertisement(allNodesMAC, allNodes, flagOverride, vip6, macA)},
		{name: "an ARP request for another", question: question(macB, vip4, him4, MAC{}), isSilence: true},
		{name: "a solicitation for another", question: question(macB, vip6, him6, MAC{}), isSilence: true},
		{name: "an ARP announcement", question: announcement(macB, vip4), isSilence: true},
		{name: "an ARP reply", question: gratuitousReply(macB, vip4), isSilence: true},
		{name: "an advertisement", question: announcement(macB, vip6), isSilence: true},
	} {
		p, ok := parse(c.question)
		got := answerTo(p, macA, owns)
		if !ok || !slices.Equal(got, c.want) || c.isSilence != (got == nil) {
			t.Errorf("%s: got %x, %v", c.name, got, ok)
		}
		if got != nil && got[12] == 0x86 && got[58]&0x80 != 0 {
			t.Errorf("%s: the Router flag is set", c.name)
		}
	}
}

// drawFrame is mostly a valid frame of which some bytes may be others.
func drawFrame(t *rapid.T) []byte {
	v4 := rapid.SampledFrom([]netip.Addr{vip4, him4, no4, netip.MustParseAddr("192.0.2.101")})
	v6 := rapid.SampledFrom([]netip.Addr{vip6, him6, netip.MustParseAddr("2001:db8::101"), netip.MustParseAddr("fe80::100")})
	var frame []byte
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		frame = arp(broadcast, uint16(rapid.IntRange(0, 3).Draw(t, "op")), macB, v4.Draw(t, "sender"), MAC{}, v4.Draw(t, "target"))
	case 1:
		frame = question(macB, v6.Draw(t, "source"), v6.Draw(t, "target"), MAC{})
	case 2:
		frame = question(macB, no6, v6.Draw(t, "target"), MAC{})
	case 3:
		frame = advertisement(macA, v6.Draw(t, "to"), byte(rapid.IntRange(0, 255).Draw(t, "flags")), v6.Draw(t, "target"), macB)
	case 4:
		frame = rapid.SliceOfN(rapid.Byte(), 14, 120).Draw(t, "noise")
	}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		frame[rapid.IntRange(0, len(frame)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
	}
	return frame
}

func TestNoFrameIsAnsweredForWhatIsNotClaimed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claimed := map[netip.Addr]bool{vip4: rapid.Bool().Draw(t, "4"), vip6: rapid.Bool().Draw(t, "6")}
		checkAnswer(t, drawFrame(t), claimed)
	})
}

// checkAnswer holds an answer against a reading of the bytes of its own: it speaks of a
// claimed address, for which the frame asks, and with our MAC.
func checkAnswer(t interface{ Fatalf(string, ...any) }, frame []byte, claimed map[netip.Addr]bool) {
	p, ok := parse(frame)
	if !ok {
		return
	}
	answer := answerTo(p, macA, func(a netip.Addr) bool { return claimed[a] })
	if answer == nil {
		return
	}
	var asked, said netip.Addr
	var mac MAC
	switch {
	case len(answer) == 42 && answer[12] == 8 && answer[13] == 6 && answer[21] == 2:
		asked, said, mac = netip.AddrFrom4([4]byte(frame[38:42])), netip.AddrFrom4([4]byte(answer[28:32])), MAC(answer[22:28])
	case len(answer) == 86 && answer[12] == 0x86 && answer[54] == 136:
		asked, said, mac = netip.AddrFrom16([16]byte(frame[62:78])), netip.AddrFrom16([16]byte(answer[62:78])), MAC(answer[80:86])
	default:
		t.Fatalf("%x is answered with %x", frame, answer)
	}
	if asked != said || !claimed[said] || mac != macA || MAC(answer[6:12]) != macA {
		t.Fatalf("%x, which asks for %v, is answered with %x", frame, asked, answer)
	}
}

func FuzzFrame(f *testing.F) {
	for _, seed := range [][]byte{
		announcement(macB, vip4), gratuitousReply(macB, vip4), question(macB, him4, vip4, MAC{}), question(macB, no4, vip4, MAC{}),
		announcement(macB, vip6), question(macB, him6, vip6, MAC{}), question(macB, no6, vip6, MAC{}), advertisement(macA, him6, flagSolicited, vip6, macB),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		checkAnswer(t, frame, map[netip.Addr]bool{vip4: true, vip6: true})
		checkAnswer(t, frame, map[netip.Addr]bool{})
	})
}
