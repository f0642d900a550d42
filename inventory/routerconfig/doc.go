// Package routerconfig writes the router's side of every session that the
// machines of an inventory have with it, in the router's own language.
//
// Both ends come from one [inventory.Inventory], so they cannot disagree about
// AS numbers, address families, passwords, TTL security or BFD. What a router
// is told: who its neighbours are, to let in exactly the pools and pod CIDRs, to
// let nothing out to them unless they learn from it, to tell others one block a
// rack and drop what nobody holds of it, a limit on prefixes, and to use all paths. What it is not told: timers, which both ends negotiate, and
// anything about its interfaces.
package routerconfig
