package vip

import (
	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/lb/ipam"
)

var (
	vipsHeld          = prometheus.NewDesc("plinth_vips_held", "VIPs that are held, by the pool that they lie in; none: in no pool any more.", []string{"pool"}, nil)
	vipsResting       = prometheus.NewDesc("plinth_vips_resting", "Addresses that were released less than ten minutes ago.", nil, nil)
	unannouncedVIPs   = prometheus.NewDesc("plinth_vips_unannounced", "VIPs that are held and that nobody has announced for ten seconds, or for 90 where sessions are down or no agent has run, by the reason why.", []string{"reason"}, nil)
	poolAddresses     = prometheus.NewDesc("plinth_pool_addresses", "Addresses of a pool that Services may have, those that are held included.", []string{"pool", "family"}, nil)
	poolAddressesFree = prometheus.NewDesc("plinth_pool_addresses_free", "Addresses of a pool that are neither held nor reserved, and have not been released less than ten minutes ago.", []string{"pool", "family"}, nil)
	waitingFor        = prometheus.NewDesc("plinth_services_waiting", "Services that have less than they ask for, by the first reason why.", []string{"reason"}, nil)
)

// vipCollector collects the counts of the ledger at each scrape.
type vipCollector struct{ b *Controller }

// Describe sends the descriptions of the metrics.
func (c vipCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{vipsHeld, vipsResting, waitingFor, unannouncedVIPs, poolAddresses, poolAddressesFree} {
		out <- d
	}
}

// Collect sends the metrics.
func (c vipCollector) Collect(out chan<- prometheus.Metric) {
	now := ask(c.b.store, func(s *ipam.State) ipam.Count { return s.Count(c.b.now()) })
	for pool, n := range now.Held {
		out <- prometheus.MustNewConstMetric(vipsHeld, prometheus.GaugeValue, float64(n), pool)
	}
	for reason, n := range now.Pending {
		out <- prometheus.MustNewConstMetric(waitingFor, prometheus.GaugeValue, float64(n), string(reason))
	}
	out <- prometheus.MustNewConstMetric(vipsResting, prometheus.GaugeValue, float64(now.Quarantined))
	for reason, n := range c.b.announcements.count() {
		out <- prometheus.MustNewConstMetric(unannouncedVIPs, prometheus.GaugeValue, float64(n), string(reason))
	}
	for _, p := range now.Pools {
		out <- prometheus.MustNewConstMetric(poolAddresses, prometheus.GaugeValue, float64(p.Size), p.Pool, p.Family.String())
		out <- prometheus.MustNewConstMetric(poolAddressesFree, prometheus.GaugeValue, float64(p.Free), p.Pool, p.Family.String())
	}
}
