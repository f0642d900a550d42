package vip

import "github.com/prometheus/client_golang/prometheus"

var (
	vipsHeld    = prometheus.NewDesc("plinth_vips_held", "VIPs that are held, by the pool that they lie in; none: in no pool any more.", []string{"pool"}, nil)
	vipsResting = prometheus.NewDesc("plinth_vips_resting", "Addresses that were released less than ten minutes ago.", nil, nil)
	waitingFor  = prometheus.NewDesc("plinth_services_waiting", "Services that have less than they ask for, by the first reason why.", []string{"reason"}, nil)
)

// vipCollector counts what the ledger has when somebody asks.
type vipCollector struct{ b *Controller }

// Describe sends what may be collected.
func (c vipCollector) Describe(out chan<- *prometheus.Desc) {
	out <- vipsHeld
	out <- vipsResting
	out <- waitingFor
}

// Collect sends what is.
func (c vipCollector) Collect(out chan<- prometheus.Metric) {
	held, waiting := map[string]int{}, map[string]int{}
	c.b.mu.Lock()
	for _, claim := range c.b.ledger.Claims() {
		if len(claim.Holders) > 0 {
			held[c.b.ledger.Pool(claim.Addr)]++
		}
	}
	for k := range c.b.waiting {
		if s := c.b.standings[k]; s != nil && len(s.decision.Denials) > 0 {
			waiting[string(s.decision.Denials[0].Reason)]++
		}
	}
	resting := 0
	for _, r := range c.b.ledger.Resting() { // the ledger ends a rest only when it gives something
		if r.Until.After(c.b.now()) {
			resting++
		}
	}
	c.b.mu.Unlock()
	for pool, n := range held {
		out <- prometheus.MustNewConstMetric(vipsHeld, prometheus.GaugeValue, float64(n), pool)
	}
	for reason, n := range waiting {
		out <- prometheus.MustNewConstMetric(waitingFor, prometheus.GaugeValue, float64(n), reason)
	}
	out <- prometheus.MustNewConstMetric(vipsResting, prometheus.GaugeValue, float64(resting))
}
