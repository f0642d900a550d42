// Package offers tells which VIPs there are to announce: Services, claims and EndpointSlices as events tell of them go
// in, [advertise.Offer] comes out. An [Index] works out anew only what an event touched, so that one Service among ten
// thousand costs what it costs alone. It has no lock, no clock and no client: who watches has these.
package offers
