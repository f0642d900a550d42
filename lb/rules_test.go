package lb

import "testing"

func TestWhatTheMessageSaysOfRulesThatAreGoneIsReadBack(t *testing.T) {
	message := "routes 4/4, sessions 2/2; " + RulesLostText(3, 12) + "; waiting for services"
	if gone, all := RulesLostIn(message); gone != 3 || all != 12 {
		t.Errorf("%q: %d of %d", message, gone, all)
	}
	for _, other := range []string{"", "routes 4/4, sessions 2/2", "ProxyRulesLost: kube-proxy's rules are gone for some"} {
		if gone, all := RulesLostIn(other); gone != 0 || all != 0 {
			t.Errorf("%q: %d of %d", other, gone, all)
		}
	}
}
