package lb

import (
	"cmp"
	"reflect"
	"strings"
	"testing"
)

func TestProblemsOfLinksAreReadAsTheyWereWritten(t *testing.T) {
	all := []LinkProblem{{"192.168.1.0/24", "NoCarrier", ""}, {"192.168.1.200", AddressConflict, "02:00:00:00:00:aa"}}
	message := "routes 8/8, sessions 0/0; " + LinkProblemsText(all) + "; and more"
	if got := LinkProblemsIn(message); !reflect.DeepEqual(got, all) {
		t.Errorf("in %q is %+v", message, got)
	}
	if _, isVIP := all[0].VIP(); isVIP {
		t.Error("a subnet is taken for a VIP")
	}
	if vip, isVIP := all[1].VIP(); !isVIP || vip.String() != "192.168.1.200" {
		t.Errorf("the VIP is %v", vip)
	}
	many := make([]LinkProblem, linkProblemsTold+7)
	for i := range many {
		many[i] = all[i%2]
	}
	text := LinkProblemsText(many)
	if got := LinkProblemsIn(text); !reflect.DeepEqual(got, many[:linkProblemsTold]) || !strings.HasSuffix(text, "; 7 more on links") {
		t.Errorf("of %d problems %d are told: %s", len(many), len(got), text)
	}
	for _, none := range []string{"", "routes 8/8, sessions 2/2", "on link"} {
		if got := LinkProblemsIn(none); len(got) > 0 {
			t.Errorf("in %q is %+v", none, got)
		}
	}
}

func TestProblemsOfWholeLinksComeFirst(t *testing.T) {
	sorted := []LinkProblem{
		{On: "192.168.1.0/24", Reason: NoMajority}, {On: "2001:db8::/64", Reason: NoCarrier},
		{On: "192.168.1.9", Reason: NotAnsweredOnWire, Detail: "w2"}, {On: "192.168.1.200", Reason: AddressConflict, Detail: "00:00:5e:00:53:01"},
		{On: "192.168.1.200", Reason: AddressConflict, Detail: "00:00:5e:00:53:02"}, {On: "192.168.1.200", Reason: AddressOnInterface, Detail: "lo"},
		{On: "2001:db8::1", Reason: AddressConflict},
	}
	for i, a := range sorted {
		for k, b := range sorted {
			if got := a.Compare(b); got != cmp.Compare(i, k) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
}
