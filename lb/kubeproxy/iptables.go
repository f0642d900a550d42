package kubeproxy

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// natTables list the tables of iptables-legacy, by family.
var natTables = map[uint8]string{unix.NFPROTO_IPV4: "/proc/net/ip_tables_names", unix.NFPROTO_IPV6: "/proc/net/ip6_tables_names"}

// hasChains reports whether a family may have kube-proxy's chains of mode iptables: with
// iptables-nft they are asked for by name, and with iptables-legacy it is enough that
// anybody has rules for NAT.
func (f *netfilter) hasChains(a netip.Addr) bool {
	_, found, err := f.get(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETCHAIN, family(a), text(unix.NFTA_CHAIN_TABLE, "nat"), text(unix.NFTA_CHAIN_NAME, "KUBE-SERVICES"))
	if err == nil && found {
		return true
	}
	names, err := os.ReadFile(natTables[family(a)])
	return err == nil && slices.Contains(strings.Fields(string(names)), "nat")
}
