package vip

import (
	"maps"
	"net/netip"
	"slices"

	"plinth.dev/plinth/lb/ipam"
	"plinth.dev/plinth/provider/claim"
)

// countAhead is by how much the count of writes leaps when a restore is repaired. Another process
// may know of a greater count than this one, which reads it every ten seconds.
const countAhead = 1000

// endRestored ends this process, since etcd was restored from a backup while it served. A watch
// may go on from a version that is yet to come, and say nothing for hours
// (kubernetes/kubernetes#107457), so all that this process knows of Services, Nodes and VIPs may
// never have been. What it knew of claims before, the next process finds in the journal's file.
func (b *Controller) endRestored() {
	b.log.Error("starting anew: the API server's store was restored from a backup")
	b.stop()
	b.journal.Save()
	b.options.Restart()
}

// restoreFrom enters, at the start of a leader after a restore, who held what before and is not
// named by a claim now. Whoever reconciles their Services claims it anew; nobody else gets it
// meanwhile.
func (b *Controller) restoreFrom() {
	before := b.journal.BeforeRestore()
	if before == nil {
		return
	}
	kept := 0
	b.apply(func(s *ipam.State) (all ipam.Effects) {
		for _, a := range slices.SortedFunc(maps.Keys(before.Claims), netip.Addr.Compare) {
			if e := before.Claims[a]; len(e.Holders) > 0 {
				anew, effects := s.Restore(a, e.Pool, b.remembered(e), e.Holders[0], b.now())
				if all = all.And(effects); anew {
					kept++
				}
			}
		}
		return all
	})
	b.log.Info("remembers VIPs that the backup does not have", "remembered", len(before.Claims), "kept", kept)
}

// remembered returns the requests of those of an entry's holders that still exist and are Plinth's
// to serve.
func (b *environment) remembered(e claim.Entry) (all []ipam.Request) {
	for i, k := range e.Holders {
		if svc := b.service(k); svc != nil && b.isOurs(svc) && (i > 0 || e.UID == "" || e.UID == string(svc.UID)) {
			all = append(all, requestOf(svc))
		}
	}
	return all
}

// finishRestore makes the next write of ConfigMap plinth-released report that a restore is repaired,
// once it is: the addresses that are to be in quarantine are written down, and all holders that
// were known before are named by their claims.
func (b *Controller) finishRestore() {
	before := b.journal.BeforeRestore()
	if before == nil || !ask(b.store, func(s *ipam.State) bool { return s.Claimed(maps.Keys(before.Claims)) }) {
		return
	}
	b.released.last.Writes = max(b.released.last.Writes, before.Writes+countAhead)
	b.writeReleasedSoon()
}
