package lb

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Why a Service gets no VIP, or not the one that it asks for.
const (
	NoPools               Reason = "NoPools"               // the inventory has none
	PoolUnknown           Reason = "PoolUnknown"           // the pool asked for is not in the inventory
	PoolNotAutomatic      Reason = "PoolNotAutomatic"      // autoAssign is off and the Service asks neither for the pool nor for an address of it
	PoolIsDraining        Reason = "PoolIsDraining"        // the pool gives no new VIP
	PoolIsDisabled        Reason = "PoolIsDisabled"        // the pool is withdrawn
	NamespaceNotAllowed   Reason = "NamespaceNotAllowed"   // the pool is for other namespaces
	LabelsNotSelected     Reason = "LabelsNotSelected"     // the pool's serviceSelector does not match the Service
	PoolLacksFamily       Reason = "PoolLacksFamily"       // the pool has no addresses of that family
	PoolExhausted         Reason = "PoolExhausted"         // every address of that family is held or reserved
	AddressInvalid        Reason = "AddressInvalid"        // what is asked for is not an address that anybody may have
	AddressNotInPool      Reason = "AddressNotInPool"      // no pool, or not the pool asked for, has the address
	AddressExcluded       Reason = "AddressExcluded"       // its pool leaves the address out, or it is a machine's, a router's or the cluster's
	AddressReserved       Reason = "AddressReserved"       // the address is kept for another Service
	AddressInUse          Reason = "AddressInUse"          // another Service, or another program, holds the address
	AddressResting        Reason = "AddressResting"        // a Service of another namespace gave the address back less than ten minutes ago
	FamilyNotRequested    Reason = "FamilyNotRequested"    // the address asked for is of a family that the Service does not have
	SharingKeyDiffers     Reason = "SharingKeyDiffers"     // the holders of the address use another sharing key, or none
	SharingPortInUse      Reason = "SharingPortInUse"      // a holder of the address serves the same port
	SharingBackendsDiffer Reason = "SharingBackendsDiffer" // with externalTrafficPolicy Local all holders must have the same backends
	SharingNamespace      Reason = "SharingNamespace"      // a sharing key counts within one namespace
	SharingKeyInvalid     Reason = "SharingKeyInvalid"     // a sharing key is at most 253 printable characters
)

// StatusNotHeld is the reason of the Event on a Service whose status shows an address of a
// pool that it does not hold, and that nobody is given meanwhile.
const StatusNotHeld Reason = "StatusNotHeld"

// Denial is one "no" on the way to a VIP. What does not apply is empty.
type Denial struct {
	Reason  Reason
	Pool    string
	Family  Family
	Address netip.Addr
	Holder  ServiceKey // who has it, who had it, or whom it is kept for
	Until   time.Time  // when a rest ends
	Detail  string
}

// String prints the denial for an operator.
func (d Denial) String() string {
	var b strings.Builder
	if d.Pool != "" {
		fmt.Fprintf(&b, "pool %s: ", d.Pool)
	}
	b.WriteString(string(d.Reason))
	sep := " ("
	add := func(format string, v any) {
		fmt.Fprintf(&b, sep+format, v)
		sep = ", "
	}
	if d.Address.IsValid() {
		add("%v", d.Address)
	}
	if d.Family != NoFamily {
		add("%v", d.Family)
	}
	if d.Holder != (ServiceKey{}) {
		add("of %v", d.Holder)
	}
	if !d.Until.IsZero() {
		add("until %s", d.Until.UTC().Format(time.RFC3339))
	}
	if d.Detail != "" {
		add("%s", d.Detail)
	}
	if sep == ", " {
		b.WriteByte(')')
	}
	return b.String()
}
