package report

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plinth.dev/plinth/buildinfo"
	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/provider/agent/link"
	"plinth.dev/plinth/routing/kernel"
)

// Metrics are the agent's metrics: counters, and gauges that are read at each scrape.
type Metrics struct {
	registry *prometheus.Registry
	passes   *prometheus.CounterVec
	duration prometheus.Histogram
	written  prometheus.Counter
	retried  prometheus.Counter
	doubts   prometheus.Counter

	rulesWait *prometheus.HistogramVec
}

// newMetrics returns metrics that nobody has counted in, and that ask the board at each scrape.
func newMetrics(board *Board) *Metrics {
	metrics := &Metrics{
		registry: prometheus.NewRegistry(),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plinth_agent_passes_total", Help: "Passes over the whole state, by result: ok or failed in part.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plinth_agent_pass_duration_seconds", Help: "Time from a snapshot until it was planned and applied.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plinth_agent_routes_written_total", Help: "Routes written to the kernel or deleted from it.",
		}),
		retried: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plinth_agent_routes_retried_total", Help: "Routes that the kernel did not take at first, so that its tables were read back and all was tried again.",
		}),
		doubts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plinth_agent_kernel_doubts_total", Help: "Times that the kernel's routes were read back because of an event.",
		}),
	}
	metrics.rulesWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "plinth_agent_proxy_rules_wait_seconds",
		Help:    "Time that a VIP waited for kube-proxy's rules before it was announced, by how that ended: present (they were seen), unknown (nobody could be asked), overdue (the bound was over).",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 45},
	}, []string{"evidence"})
	metrics.registry.MustRegister(metrics.passes, metrics.duration, metrics.written, metrics.retried, metrics.doubts, metrics.rulesWait, scraped{board}, buildinfo.Metric{})
	return metrics
}

// Pass counts a pass.
func (m *Metrics) Pass(duration time.Duration, reached kernel.State, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.passes.WithLabelValues(result).Inc()
	m.duration.Observe(duration.Seconds())
	m.written.Add(float64(reached.Changed))
	m.retried.Add(float64(len(reached.Retried)))
}

// Reread counts that the kernel's routes are read back because of an event.
func (m *Metrics) Reread() { m.doubts.Inc() }

// WaitedForRules counts for how long a VIP waited for kube-proxy's rules, and how that ended.
func (m *Metrics) WaitedForRules(evidence advertise.Evidence, d time.Duration) {
	m.rulesWait.WithLabelValues(string(evidence)).Observe(d.Seconds())
}

// scraped are the metrics that are worked out when somebody asks.
type scraped struct{ board *Board }

var (
	sessionLabels = []string{"router", "address"}
	sessionUp     = prometheus.NewDesc("plinth_agent_session_up", "1 if the BGP session is up.", sessionLabels, nil)
	sessionDown   = prometheus.NewDesc("plinth_agent_session_down", "1 for a session that is down, by the likely cause.", []string{"router", "address", "cause"}, nil)
	pathWatched   = prometheus.NewDesc("plinth_agent_bfd_up", "1 if BFD with the router is up; only where the inventory asks for BFD.", sessionLabels, nil)
	sessionSince  = prometheus.NewDesc("plinth_agent_session_changed_timestamp_seconds", "When the session last went up or down.", sessionLabels, nil)
	sessionTold   = prometheus.NewDesc("plinth_agent_session_announced_prefixes", "Prefixes in the session's adj-RIB-out.", sessionLabels, nil)
	sessionKept   = prometheus.NewDesc("plinth_agent_session_refused_prefixes", "Prefixes planned for this session and withheld by the guard; /status has the first ten, with reasons.", sessionLabels, nil)
	sessionHeard  = prometheus.NewDesc("plinth_agent_session_accepted_prefixes", "Prefixes of the router's that were accepted.", sessionLabels, nil)
	sessionLost   = prometheus.NewDesc("plinth_agent_session_losses_total", "Times that the session was up and went down.", sessionLabels, nil)
	staleness     = prometheus.NewDesc("plinth_agent_api_silence_seconds", "Time since the API server last said anything about a kind of object, or since it is asked in vain.", []string{"kind"}, nil)
	routesWanted  = prometheus.NewDesc("plinth_agent_routes_wanted", "Routes that the plan has.", nil, nil)
	routesHeld    = prometheus.NewDesc("plinth_agent_routes_held", "Routes of the plan that the kernel holds.", nil, nil)
	refusedNow    = prometheus.NewDesc("plinth_agent_refusals", "VIPs and pod CIDRs that are not announced or not routed, by reason.", []string{"reason"}, nil)
	badSettings   = prometheus.NewDesc("plinth_agent_bad_kernel_settings", "Kernel settings that stand in the way of packets for pods and VIPs; /status names them.", nil, nil)
	proxyHealthy  = prometheus.NewDesc("plinth_agent_proxy_healthy", "0 if kube-proxy says that it does not serve, or has not answered yet after a boot.", nil, nil)
	rulesOverdue  = prometheus.NewDesc("plinth_agent_proxy_rules_overdue", "VIPs that are announced although kube-proxy's rules for them were not seen within the bound, or are gone; /status names them.", nil, nil)
	rulesLost     = prometheus.NewDesc("plinth_agent_proxy_rules_lost", "VIPs whose rules of kube-proxy were there, and are gone; where another machine serves them they are not announced.", nil, nil)
	waiting       = prometheus.NewDesc("plinth_agent_waiting", "1 while something is missing that a plan is made of; /status names it, and what was planned before stays in force.", nil, nil)
	notRead       = prometheus.NewDesc("plinth_agent_newer_format", "1 while a newer version has stored what this agent does not read; /status names it, and what was known before stays in force.", nil, nil)
	watchesNodes  = prometheus.NewDesc("plinth_agent_watches_nodes", "1 while the agent watches other Nodes itself, which costs the API server more, since the directory of Nodes lacks some that it needs.", nil, nil)
	fromDisk      = prometheus.NewDesc("plinth_agent_from_disk", "1 while the plan is made of what an earlier process knew.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (scraped) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionUp, sessionDown, pathWatched, sessionSince, sessionTold, sessionKept, sessionHeard, sessionLost, staleness, routesWanted, routesHeld, refusedNow, badSettings, proxyHealthy, rulesOverdue, rulesLost, waiting, notRead, fromDisk, watchesNodes} {
		ch <- d
	}
	link.Describe(ch)
}

// Collect implements [prometheus.Collector].
func (s scraped) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, state := range s.board.ask.Sessions(context.Background()) {
		labels := []string{state.Router, state.Addr.String()}
		gauge(sessionUp, number(state.Up), labels...)
		if !state.Up {
			gauge(sessionDown, 1, append(labels, string(state.Cause))...)
		}
		if state.BFD != "" {
			gauge(pathWatched, number(state.BFD == "up"), labels...)
		}
		gauge(sessionSince, float64(state.Since.UnixMilli())/1000, labels...)
		gauge(sessionTold, float64(len(state.Announced)), labels...)
		gauge(sessionKept, float64(state.Refused), labels...)
		gauge(sessionHeard, float64(state.Accepted), labels...)
		ch <- prometheus.MustNewConstMetric(sessionLost, prometheus.CounterValue, float64(state.Losses), labels...)
	}
	for kind, d := range s.board.ask.LastSeen() {
		gauge(staleness, d.Seconds(), kind)
	}
	status := s.board.status.Load()
	gauge(proxyHealthy, number(status.ProxyHealthy))
	gauge(rulesOverdue, float64(len(status.basis.Overdue)))
	gauge(rulesLost, float64(status.basis.Lost))
	gauge(waiting, number(status.WaitingFor != ""))
	gauge(notRead, number(len(status.Unread) > 0))
	gauge(fromDisk, number(status.FromDisk))
	gauge(watchesNodes, number(status.WatchesNodes))
	gauge(badSettings, float64(len(status.basis.Settings)))
	gauge(routesWanted, float64(status.basis.Reached.Want))
	gauge(routesHeld, float64(status.basis.Reached.Have))
	reasons := status.basis.Plan.Reasons()
	for _, r := range status.basis.OnLinks {
		reasons[string(r.Reason)]++
	}
	for reason, n := range reasons {
		gauge(refusedNow, float64(n), reason)
	}
	s.board.ask.Links.Collect(ch)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
