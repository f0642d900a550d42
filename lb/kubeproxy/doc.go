// Package kubeproxy finds out whether kube-proxy on this machine has the rules for a VIP:
// it asks the kernel, and kube-proxy's health check node ports, and changes nothing.
//
// kube-proxy writes the rules of one family in one transaction, so that one port of a
// Service stands for all of its ports. What is evidence differs by its mode, and is looked
// for in this order:
//
//	nftables  the element "VIP . protocol . port" in the map service-ips of its table kube-proxy: one lookup
//	ipvs      none is looked for
//	iptables  a TCP connection from this machine, which conntrack says is passed on to an endpoint
//
// The rules themselves are not read in mode iptables: neither interface of the kernel has a
// lookup, a chain of 1,000 Services is megabytes to be copied and parsed for each answer,
// and there are two formats (iptables-nft and iptables-legacy).
//
// A connection is closed at once, with a reset. It bears a TTL of 1: without rules it
// does not get further than the next router, where another machine that has them could
// answer in its place. What decides is where conntrack passes it on to, not whether anybody
// answers. UDP and SCTP have no evidence there: a datagram would reach an endpoint.
//
// That an endpoint has arrived on this machine is what the health check node port of a
// Service with externalTrafficPolicy Local says: it counts the ready ones, and changes after
// the commit. /healthz is no evidence for a VIP: a sync can end after an event without having
// seen it.
package kubeproxy
