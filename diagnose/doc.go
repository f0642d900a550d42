// Package diagnose judges a datacenter by what a cluster says of it: what is not as it should
// be ([Of]), and for one thing the chain from what is wanted to what is on the wire, up to the first link that
// is broken ([WhyService], [WhyVIP], [WhyNode], [WhyRouter]).
//
// It is pure: what was read comes in as an [Observed], and findings go out. Who would announce
// a VIP it asks package preview, and so the planners of the agents; how much of a pool is left, the
// ledger of package ipam.
package diagnose
