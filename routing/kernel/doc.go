// Package kernel makes the kernel hold exactly the routes it is given, among
// those that bear our mark.
//
// The mark of a route is our protocol number together with our metric; of a rule
// our protocol number; of the tunnel its name. All else is another program's and is
// never changed. Routes go through a netlink socket of our own, many to a message:
// one system call each is what bounds other ways of writing them.
package kernel
