// Package claim has the IPAddress objects by which Services claim VIPs, and what is remembered
// for the day after a restore of etcd.
//
// A [Client] reads and writes: each write holds for the object as it is known and no other. A
// [Journal] follows the objects for the whole life of a process, whether it leads or not, and
// is the one mirror of them until the process leads; then it tells a [Sink], which keeps them.
// [Journal.WriteReleased] counts its writes: a process that reads a smaller count than it knows
// looks at a cluster whose etcd was restored from a backup.
package claim
