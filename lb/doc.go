// Package lb is the vocabulary of Services and their VIPs: what names a Service, the
// families, the reasons for every "no", and what the programs write for each other.
//
// Who holds which VIP is decided in lb/ipam, what a machine announces in lb/advertise.
package lb
