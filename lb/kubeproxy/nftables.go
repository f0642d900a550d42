package kubeproxy

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The names of kube-proxy 1.31 to 1.37 in mode nftables, in the families ip and ip6.
const (
	proxyTable   = "kube-proxy"
	servicesMap  = "service-ips"          // where packets are passed on
	endpointless = "no-endpoint-services" // where they are rejected or dropped
)

// hasMap reports whether a family has one of kube-proxy's maps.
func (f *netfilter) hasMap(a netip.Addr, name string) (bool, error) {
	_, found, err := f.get(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETSET, family(a), text(unix.NFTA_SET_TABLE, proxyTable), text(unix.NFTA_SET_NAME, name))
	return found, err
}

// hasProxyTable reports whether a family has kube-proxy's table.
func (f *netfilter) hasProxyTable(a netip.Addr) bool {
	_, found, err := f.get(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETTABLE, family(a), text(unix.NFTA_TABLE_NAME, proxyTable))
	return err == nil && found
}

// inMap reports whether a map of kube-proxy's has the key "address . protocol . port".
// Where there is no such map there is no such key either.
func (f *netfilter) inMap(name string, vip netip.Addr, p port) (bool, error) {
	key := nested(unix.NFTA_SET_ELEM_KEY, rawAttr(unix.NFTA_DATA_VALUE, mapKey(vip, p)))
	_, found, err := f.get(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETSETELEM, family(vip),
		text(unix.NFTA_SET_ELEM_LIST_TABLE, proxyTable), text(unix.NFTA_SET_ELEM_LIST_SET, name),
		nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, nested(unix.NFTA_LIST_ELEM, key)))
	return found, err
}

// mapKey is a concatenation as the kernel has it: each part fills whole words of four bytes.
func mapKey(vip netip.Addr, p port) []byte {
	key := append(vip.AsSlice(), p.protocol, 0, 0, 0)
	key = binary.BigEndian.AppendUint16(key, p.number)
	return append(key, 0, 0)
}
