package inventory

import (
	"cmp"
	"slices"
)

// Volume is what a PersistentVolume says about where its data lies. What it
// does not say is empty.
type Volume struct {
	NFSServer     string            // spec.nfs.server
	ISCSIPortal   string            // spec.iscsi.targetPortal
	CSIDriver     string            // spec.csi.driver
	CSIAttributes map[string]string // spec.csi.volumeAttributes
}

// StorageOf returns the storage that a volume lives in. Where several CSI
// entries would do, that with the most attributes is the one, then the first by name.
func (inv *Inventory) StorageOf(v Volume) (Storage, bool) {
	var found []Storage
	for _, s := range inv.Storage {
		if s.holds(v) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return Storage{}, false
	}
	return slices.MinFunc(found, func(a, b Storage) int {
		return cmp.Compare(len(b.CSIAttributes), len(a.CSIAttributes))
	}), true
}

func (s Storage) holds(v Volume) bool {
	switch {
	case s.NFSServer != "":
		return s.NFSServer == v.NFSServer
	case s.ISCSIPortal != "":
		return s.ISCSIPortal == v.ISCSIPortal
	case s.CSIDriver == "" || s.CSIDriver != v.CSIDriver:
		return false
	}
	for k, want := range s.CSIAttributes {
		if v.CSIAttributes[k] != want {
			return false
		}
	}
	return true
}

// VolumeLabels returns the labels of a PersistentVolume that lives in the
// storage: region and zone.
func (inv *Inventory) VolumeLabels(s Storage) map[string]string {
	rack, _ := inv.Rack(s.Rack)
	return map[string]string{LabelRegion: inv.Region, LabelZone: cmp.Or(rack.Zone, s.Rack)}
}
