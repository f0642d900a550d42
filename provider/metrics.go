package provider

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// register has metrics shown at /metrics, beside the stock controllers'.
func register(collectors ...prometheus.Collector) {
	legacyregistry.RawMustRegister(collectors...)
}
