// Package diagnose judges a datacenter by an observation of its cluster: its problems
// ([Of]), and for one thing the chain from the desired state to the packets on the wire, up to the first link that
// is broken ([WhyService], [WhyVIP], [WhyNode], [WhyRouter]).
//
// It is pure: the observation comes in as an [Observed], and findings go out. Which machines would announce
// a VIP it asks package preview, and so the planners of the agents; how much of a pool is left, the
// ledger of package ipam.
package diagnose
