package ipam

import (
	"fmt"
	"net/netip"
	"plinth.dev/plinth/lb"
	"strings"
	"time"
)

// Denial is one "no" on the way to a VIP. What does not apply is empty.
type Denial struct {
	Reason  lb.Reason
	Pool    string
	Family  lb.Family
	Address netip.Addr
	Holder  lb.ServiceKey // that has it, had it, or that it is kept for
	Until   time.Time     // when a quarantine ends
	Detail  string
}

// String prints the denial for an operator.
func (d Denial) String() string {
	var text strings.Builder
	if d.Pool != "" {
		fmt.Fprintf(&text, "pool %s: ", d.Pool)
	}
	text.WriteString(string(d.Reason))
	sep := " ("
	add := func(format string, v any) {
		fmt.Fprintf(&text, sep+format, v)
		sep = ", "
	}
	if d.Address.IsValid() {
		add("%v", d.Address)
	}
	if d.Family != lb.NoFamily {
		add("%v", d.Family)
	}
	if d.Holder != (lb.ServiceKey{}) {
		add("of %v", d.Holder)
	}
	if !d.Until.IsZero() {
		add("until %s", d.Until.UTC().Format(time.RFC3339))
	}
	if d.Detail != "" {
		add("%s", d.Detail)
	}
	if sep == ", " {
		text.WriteByte(')')
	}
	return text.String()
}
