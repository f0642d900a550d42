package lb

import (
	"cmp"
	"testing"
)

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

func TestAProblemOfALinkIsOfAVIPOrOfTheWholeLink(t *testing.T) {
	if _, isVIP := (LinkProblem{On: "192.168.1.0/24", Reason: NoCarrier}).VIP(); isVIP {
		t.Error("a subnet is taken for a VIP")
	}
	if vip, isVIP := (LinkProblem{On: "192.168.1.200", Reason: AddressConflict}).VIP(); !isVIP || vip.String() != "192.168.1.200" {
		t.Errorf("the VIP is %v", vip)
	}
}
