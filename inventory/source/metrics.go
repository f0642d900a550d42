package source

import (
	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/inventory"
)

// Metrics are the Prometheus metrics of the inventory.
type Metrics struct {
	generation prometheus.Gauge
	ready      prometheus.Gauge
	problems   *prometheus.GaugeVec
	refused    prometheus.Counter
	failed     prometheus.Counter
	newer      prometheus.Gauge
	notStored  prometheus.Gauge
	unreadable prometheus.Gauge
}

// NewMetrics returns the metrics of one reconciler, not yet registered anywhere.
func NewMetrics() *Metrics {
	return &Metrics{
		generation: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_inventory_generation", Help: "Generation of the inventory in force; 0 while there is none."}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_inventory_ready", Help: "1 if what stands in the sources is in force, 0 if it was refused or could not be stored."}),
		problems: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plinth_inventory_problems", Help: "Problems of what stands in the sources, by severity."}, []string{"severity"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plinth_inventory_refused_total", Help: "Edits that were refused."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plinth_inventory_store_failures_total", Help: "Failures to read or store the accepted inventory."}),
		newer: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_inventory_newer_format", Help: "1 while the accepted inventory is stored in a format of a newer version, so that no edit is taken up."}),
		notStored: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_inventory_not_stored", Help: "1 while what is in force, or is to be, cannot be stored, or somebody else changes it again and again."}),
		unreadable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plinth_inventory_unreadable", Help: "1 while the accepted inventory that is stored cannot be read, so that what can be read of it is in force, or nothing."}),
	}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.generation, m.ready, m.problems, m.refused, m.failed, m.newer, m.notStored, m.unreadable}
}

// report counts what became of an edit.
func (m *Metrics) report(refused bool, problems inventory.Problems) {
	m.setReady(!refused)
	if refused {
		m.refused.Inc()
	}
	m.problems.WithLabelValues(string(inventory.Error)).Set(float64(len(problems.Errors())))
	m.problems.WithLabelValues(string(inventory.Warning)).Set(float64(len(problems.Warnings())))
}

func (m *Metrics) setReady(ready bool) { m.ready.Set(oneIf(ready)) }

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
