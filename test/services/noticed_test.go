//go:build slow

package services

import (
	"testing"
	"time"

	"plinth.dev/plinth/test/apiserver"
)

// The API server is away for longer than the leader may go without renewing its lease, as
// it is when people restore a backup. The container is started again meanwhile.
func TestSlowRestoreOfEtcdIsNoticedFromWhatTheLeaderWroteDown(t *testing.T) {
	t.Parallel() // it mostly waits
	testRestore(t, writtenDown(t, func(c *cluster, b apiserver.Backup, meanwhile func()) { c.SlowRestore(b, meanwhile) }))
}

// With --bump-revision and --mark-compacted, as etcd's manual asks for Kubernetes, resource
// versions never go back.
func TestBumpedRestoreOfEtcdIsNoticedFromWhatTheLeaderWroteDown(t *testing.T) {
	t.Parallel() // it mostly waits
	testRestore(t, writtenDown(t, func(c *cluster, b apiserver.Backup, meanwhile func()) { c.RestoreBumped(b, meanwhile) }))
}

// The leader lives through it.
func TestBumpedRestoreOfEtcdIsNoticedByTheLeader(t *testing.T) {
	t.Parallel() // it mostly waits
	testRestore(t, livedThrough(t, func(c *cluster, b apiserver.Backup) { c.RestoreBumped(b, func() {}) }))
}

// With two replicas the one that waited remembers, without a file.
func TestSlowRestoreOfEtcdIsNoticedByWhoWaitedToLead(t *testing.T) {
	t.Parallel() // it mostly waits
	var leader *apiserver.Process
	testRestore(t, restored{
		start: func(c *cluster) {
			leader = c.elected()
			c.isLed()
			c.elected()
		},
		restore: func(c *cluster, b apiserver.Backup) {
			c.SlowRestore(b, func() { leader.Ended(30 * time.Second) })
		},
	})
}
