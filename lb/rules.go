package lb

import (
	"fmt"
	"strings"
)

// rulesLost is how an agent says in the message of [FabricReady] that kube-proxy's rules are gone.
const rulesLost = string(ProxyRulesLost) + ": kube-proxy's rules are gone for %d of %d VIPs"

// RulesLostText is how it stands in the message that kube-proxy's rules are gone for some VIPs of all those that a
// machine could serve.
func RulesLostText(gone, all int) string { return fmt.Sprintf(rulesLost, gone, all) }

// RulesLostIn reads that from a message; zeros: it says nothing of it.
func RulesLostIn(message string) (gone, all int) {
	for part := range strings.SplitSeq(message, "; ") {
		if n, _ := fmt.Sscanf(part, rulesLost, &gone, &all); n == 2 {
			return gone, all
		}
	}
	return 0, 0
}
