// Package offers tells which VIPs there are to announce: Services, claims and EndpointSlices go in as events bring them,
// [advertise.Offer] comes out. An [Index] replans only the Services that an event touched, so that one among ten
// thousand costs as much as it costs alone. It has no lock, no clock and no client: its user has these.
package offers
