package preview

import "testing"

// TestAVIPThatSomebodyAnnouncesIsNotSwitchedUnasked, and one that nobody does may be mended.
func TestAVIPThatSomebodyAnnouncesIsNotSwitchedUnasked(t *testing.T) {
	inUse := Cluster{Nodes: nodes("w1", "w2", "w3"), Services: []Service{service("a", "10.2.0.200", false, "w1"), service("far", "203.0.113.7", false, "w1")}}
	before := []string{"198.51.100.0/28", "10.2.0.200-10.2.0.210"}
	// The rack's own router goes, so that the link is the default of the subnet that it gets.
	after := append([]string{"    routers: [{name: tor-r2, address: 10.2.0.1, asn: 65102}]\n", "    subnets: [10.2.0.0/24]\n"}, before...)
	asks := append([]string{"advertise: {racks: [r2]}", "advertise: {racks: [r2], via: link}"}, after...)
	for _, tt := range []struct {
		what    string
		cluster Cluster
		before  []string
		after   []string
		want    string
	}{
		{"it is announced over BGP, and goes on the link", inUse, before, after, "10.2.0.200 of service default/a goes from BGP to the link 10.2.0.0/24"},
		{"the pool asks for it", inUse, before, asks, ""},
		{"nothing changes", inUse, before, before, ""},
		{"nobody announces it", inUse, append([]string{"10.2.0.13]", "10.2.0.13], state: off"}, before...), after, ""},
		{"nobody holds it", Cluster{Nodes: inUse.Nodes, Services: inUse.Services[1:]}, before, after, ""},
	} {
		l := Losses(edited(t, tt.before...), edited(t, tt.after...), tt.cluster)
		got := ""
		for _, vip := range l.Switched {
			got += vip.String()
		}
		if got != tt.want || l.InUse != len(tt.cluster.Services) {
			t.Errorf("%s: got %q of %d, want %q", tt.what, got, l.InUse, tt.want)
		}
	}
}
