// Package machine finds the obstacles to Plinth on one machine, before it is there and after, each with the steps that mend it.
//
// It is pure. The state of a machine and the answers on its links come in as [Facts], which package probe reads, beside the state that an
// inventory expects of the machine ([Expect]); [Examine] makes findings of them. A check is a row of the table in checks.go: its name, its
// meaning, and a function from Facts to findings. A bundle ([Facts.Bundle], [Open]) is the facts and no more: names of
// interfaces and programs, addresses, settings of the kernel; no arguments of programs and nothing that the inventory keeps secret.
package machine
