// Package lb is the vocabulary of Services and their VIPs: what names a Service, the
// families, the reasons for every "no", and what the programs write for each other.
//
// Package lb/ipam decides on the holders of VIPs, lb/advertise on the announcements of a machine.
package lb
