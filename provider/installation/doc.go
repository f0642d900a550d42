// Package installation finds the installations of Plinth that a cluster has, keeps two of them from
// acting on it, and moves one to another namespace.
//
// An installation lies in its namespace: the lease of its controllers, the accepted
// inventory, the addresses in quarantine, Secrets. Two namespaces have two leases, so a lease alone does
// not keep two controllers from leading; and where the name of the lease is changed, old and new controllers of one
// installation lead by two. Four things keep them from acting, together:
//
//   - A [Guard] has a controller that leads in its own namespace act on nothing while another
//     namespace has a lease that is renewed, or an accepted inventory where its own has none.
//   - What was accepted names the lease that the installation runs on. A controller that leads by another one waits until
//     nobody holds that, and writes down its own before it acts (succession.go).
//   - [Move] parks the lease of the namespace that it moves away from: it is held for 68 years by
//     nobody, which keeps controllers of every version from leading there, of those too that know
//     nothing of this package.
//   - [Move] copies the ConfigMap that says what is in force last: until it is there, the new
//     namespace has no accepted inventory, and the guard of a controller there waits.
package installation
