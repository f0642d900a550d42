package inventory

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Server is the name or address of a server in the one form in which it is compared: an address as RFC 5952 has it, a name in lower
// case (RFC 4343) without a dot at its end. The zero value is none.
type Server struct{ text string }

// ServerOf reads a server as people write it: an address of IPv6 may be in brackets.
func ServerOf(text string) Server {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		return Server{a.Unmap().String()}
	}
	return Server{strings.TrimSuffix(strings.ToLower(text), ".")}
}

// Portal is an iSCSI portal in the one form in which it is compared. The zero value is none.
type Portal struct {
	server Server
	port   string
}

// iscsiPort is the port of a portal that names none (RFC 7143, section 15).
const iscsiPort = "3260"

// PortalOf reads a portal as a PersistentVolume has it: a name or an address, with a port or without.
func PortalOf(text string) Portal {
	if text == "" {
		return Portal{}
	}
	// The last colon is before the port, unless it is within an address of IPv6.
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.HasSuffix(text[:i], "]") || !strings.Contains(text[:i], ":")) {
		return Portal{ServerOf(text[:i]), text[i+1:]}
	}
	return Portal{ServerOf(text), iscsiPort}
}

// Volume holds the fields of a PersistentVolume that locate its data. A
// field that it does not set is empty.
type Volume struct {
	NFSServer     Server            // spec.nfs.server
	ISCSIPortal   Portal            // spec.iscsi.targetPortal
	CSIDriver     string            // spec.csi.driver
	CSIAttributes map[string]string // spec.csi.volumeAttributes
}

// StorageOf returns the storage that a volume lives in. Where several CSI
// entries would do, that with the most attributes is the one, then the first by name.
func (inv *Inventory) StorageOf(v Volume) (Storage, bool) {
	found := slices.DeleteFunc(slices.Clone(inv.Storage), func(s Storage) bool { return !s.holds(v) })
	if len(found) == 0 {
		return Storage{}, false
	}
	return slices.MinFunc(found, func(a, b Storage) int {
		return cmp.Compare(len(b.CSIAttributes), len(a.CSIAttributes))
	}), true
}

func (s Storage) holds(volume Volume) bool {
	switch {
	case s.NFSServer != "":
		return ServerOf(s.NFSServer) == volume.NFSServer
	case s.ISCSIPortal != "":
		return PortalOf(s.ISCSIPortal) == volume.ISCSIPortal
	case s.CSIDriver == "" || s.CSIDriver != volume.CSIDriver:
		return false
	}
	for k, want := range s.CSIAttributes {
		if volume.CSIAttributes[k] != want {
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
