// Package doctor finds the obstacles to Plinth in a cluster, before it is installed and after, each with the steps that mend it.
//
// It is pure. Objects of the API server come in as [Objects] and are reduced by [Read] to a [Cluster], which holds what a check reads and
// nothing else: of a container the name of its program and a few flags, of a ConfigMap the settings that are looked for, no environment,
// no annotation and no text that somebody wrote freely. A bundle ([Cluster.Bundle], [Open]) is that value and no more, so that it holds
// no secret, and [Examine] finds in it what it finds in the cluster.
//
// A check is a row of the table in checks.go: what it is called, what it means, and a function from a Cluster to findings. What a check
// needs and a Cluster does not have is first reduced in read.go.
package doctor
