package buildinfo

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Set by the linker; the Makefile has the flags.
var (
	Version  = "dev"
	Revision = "" // commit, in hexadecimal; empty: not known
)

// Fields are the version, revision, Go version and platform of a program, as it reports them in JSON.
func Fields() map[string]string {
	return map[string]string{
		"version": Version, "revision": Revision,
		"goVersion": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
	}
}

var description = prometheus.NewDesc("plinth_build_info", "1; the labels tell which build of Plinth the program is.", []string{"version", "revision", "goversion"}, nil)

// Metric shows the build in a program's metrics.
type Metric struct{}

// Describe implements prometheus.Collector.
func (Metric) Describe(c chan<- *prometheus.Desc) { c <- description }

// Collect implements prometheus.Collector.
func (Metric) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, 1, Version, Revision, runtime.Version())
}
