// Package machine finds what stands in the way of Plinth on one machine, before it is there and after, each with what mends it.
//
// It is pure. What a machine knows of itself and hears on its links comes in as [Facts], which package probe reads, beside what an
// inventory expects of the machine ([Expect]); [Examine] finds what is wrong in them. A check is a row of the table in checks.go: what it is
// called, what it means, and a function from Facts to findings. A bundle ([Facts.Bundle], [Open]) is the facts and no more: names of
// interfaces and programs, addresses, settings of the kernel; no arguments of programs and nothing that the inventory keeps secret.
package machine
