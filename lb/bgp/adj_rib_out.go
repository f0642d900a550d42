package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"plinth.dev/plinth/inventory"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/sorted"
)

// adjRIBOut is the Adj-RIB-Out of a session (RFC 4271, section 3.2), as far as this package fills it.
type adjRIBOut struct {
	agreed      agreement                 // of the last session with these terms
	desired     routes                    // the routes to announce
	unsupported withheld                  // desired routes that the router would not accept
	announced   routes                    // the routes that the server was given
	unsure      []advertise.Advertisement // changes that failed: the server may have them, or not
	prefixes    []netip.Prefix            // of the announced routes; nil: not listed yet
	emptied     *uint64                   // UPDATEs sent before all routes were withdrawn; nil: they were not, over this session
}

// accepted returns the desired routes without those that the router would not accept.
func (o *adjRIBOut) accepted(s inventory.Session) (accepted routes) {
	accepted, o.unsupported = o.agreed.filter(s, o.desired)
	return accepted
}

// started records the routes that a server was started with.
func (o *adjRIBOut) started(all routes) { o.announced, o.unsure, o.prefixes = all, nil, nil }

// sync gives the server the difference: new routes first, so that a prefix that replaces another is there
// before the other goes. After a failure the whole difference is announced, or withdrawn, again by the
// next call. While GoBGP sends a session its initial update sync changes nothing: it is called again after.
func (o *adjRIBOut) sync(in *instance) (added, withdrawn int, err error) {
	accepted := o.accepted(in.terms.Session)
	gone, add := sorted.Diff(o.announced, accepted)
	gone = slices.DeleteFunc(append(gone, o.unsure...), accepted.Has) // it is announced again
	if len(add)+len(gone) == 0 {
		return 0, 0, nil
	}
	made, err := in.initial.exclude(func() error {
		o.prefixes = nil
		o.noteEmptied(in, gone, accepted)
		return errors.Join(in.add(add), in.remove(gone))
	})
	switch {
	case !made:
		return 0, 0, nil
	case err != nil:
		o.unsure = slices.DeleteFunc(slices.Concat(gone, add), func(ad advertise.Advertisement) bool {
			_, err := path(in.terms.Session, ad)
			return err != nil // the server never saw it
		})
		o.announced = o.announced.Edit(o.unsure, nil)
		return 0, 0, fmt.Errorf("announcing and withdrawing: %w", err)
	}
	o.announced, o.unsure = accepted, nil
	return len(add), len(gone), nil
}

// noteEmptied records that all routes are being withdrawn, if none are left: the server does so
// in its own time, and if it were closed at once, the router would not receive it.
func (o *adjRIBOut) noteEmptied(in *instance, gone []advertise.Advertisement, left routes) {
	o.emptied = nil
	if left.Len() > 0 || !slices.ContainsFunc(gone, func(ad advertise.Advertisement) bool { return o.agreed.families.Has(ad.Prefix) }) {
		return
	}
	if before, err := in.counts(context.Background()); err == nil {
		o.emptied = &before.updatesSent
	}
}

// withdraw withdraws every route, and waits until the UPDATEs are sent.
func (o *adjRIBOut) withdraw(ctx context.Context, in *instance) error {
	if o.announced.Len() > 0 {
		gone := slices.Collect(o.announced.All())
		o.desired, o.announced = routes{}, routes{}
		o.noteEmptied(in, gone, routes{})
		if err := in.remove(gone); err != nil {
			return fmt.Errorf("withdrawing: %w", err)
		}
	}
	if o.emptied == nil {
		return nil
	}
	quiet, last := 0, *o.emptied
	return poll(ctx, func() (bool, error) {
		now, err := in.counts(ctx)
		if quiet++; now.updatesSent != last {
			quiet, last = 0, now.updatesSent
		}
		return last != *o.emptied && quiet >= quietTicks, err
	})
}

// list returns the prefixes that GoBGP has announced to the router, or is about to: of all routes that the
// server was given. To ask GoBGP for its own adj-RIB-out would take a third of a second for ten
// thousand routes, in which it does nothing else; a test compares the two.
func (o *adjRIBOut) list() []netip.Prefix {
	if o.prefixes == nil {
		o.prefixes = make([]netip.Prefix, 0, o.announced.Len())
		for ad := range o.announced.All() {
			o.prefixes = append(o.prefixes, ad.Prefix)
		}
	}
	return o.prefixes
}
