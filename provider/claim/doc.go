// Package claim has the IPAddress objects by which Services claim VIPs, and a journal of them
// outside etcd, for the day after a restore.
//
// A [Client] reads and writes objects: each write holds for the object as it is known and no
// other. A [Mirror] follows them for the whole life of a process, whether it leads or not, and is
// the one copy of them there; while the process leads it tells a [Sink], which keeps them. The
// mirror knows nothing of restores but this: it calls a function before each list, and lists
// anew when it is told to.
//
// A [Journal] notices a restore of etcd, by a count that went back, and remembers, in memory and
// in a file, what was known before. It repairs nothing: package vip does, when a process begins
// to lead, and only then. Three laws hold it together. The count is read before a list is
// believed, and before a claim is taken for gone. The file says what was known before until all
// of it is repaired, so a process may die anywhere. That it is repaired is told by the count
// alone, so that every process sees the same.
package claim
