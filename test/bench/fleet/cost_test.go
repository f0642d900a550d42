package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"plinth.dev/plinth/test/procfs"
)

// cost is what the API server spent, and what watchers were sent. A reading is the cost since the server's start.
type cost struct {
	seconds  float64 // that went by
	server   float64 // seconds of a processor
	store    float64 // the same of etcd
	requests float64 // that were answered, those of all who ask
	refused  float64 // of these, those that the server had no time for
	events   float64 // sent to watchers, all there are
	bytes    float64 // that the watchers received
	dials    float64 // connections that the watchers opened
	slices   float64 // events of EndpointSlices that the watchers got
	watches  float64 // that the watchers began

	// collection is what one collection of the server's garbage took, in seconds of a processor: whether one falls into a measurement is
	// chance. Of a sum it is the largest.
	collection float64
}

// plus is one cost and some times another.
func (c cost) plus(times float64, o cost) cost {
	return cost{
		c.seconds + times*o.seconds, c.server + times*o.server, c.store + times*o.store, c.requests + times*o.requests, c.refused + times*o.refused,
		c.events + times*o.events, c.bytes + times*o.bytes, c.dials + times*o.dials, c.slices + times*o.slices,
		c.watches + times*o.watches, max(c.collection, o.collection),
	}
}

// during is the cost in another time at the same rate.
func (c cost) during(seconds float64) cost { return cost{}.plus(seconds/c.seconds, c) }

// begin has the server collect its garbage, and reads the meters; p may be nil. That costs the server something: it is no part
// of what is measured.
func (s *stand) begin(p *watchers) cost {
	s.b.Helper()
	counted, before := s.counted(p), s.used()
	_, err := s.Client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(s.b.Context())
	check(s.b, err)
	used := s.used()
	used.collection = used.server - before.server
	return counted.plus(1, used)
}

// profiled does something that takes as long as a rest. If any is wanted, the API server takes a profile of its processor of most of that.
func (s *stand) profiled(name string, do func()) {
	s.b.Helper()
	if *profiles == "" {
		do()
		return
	}
	var taken sync.WaitGroup
	taken.Go(func() {
		profile, err := s.Client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").
			Param("seconds", strconv.Itoa(int(resting.Seconds()*0.9))).Timeout(2 * *resting).DoRaw(s.b.Context())
		if err == nil {
			err = os.WriteFile(filepath.Join(*profiles, name+".pprof"), profile, 0o644)
		}
		if err != nil {
			s.b.Errorf("no profile: %v", err)
		}
	})
	defer taken.Wait()
	do()
}

// since is the cost since a reading.
func (s *stand) since(before cost, p *watchers) cost {
	s.b.Helper()
	now := s.used()
	return now.plus(1, s.counted(p)).plus(-1, before)
}

// started is when seconds are counted from.
var started = time.Now()

// used are the meters of the processes.
func (s *stand) used() (c cost) {
	s.b.Helper()
	server, store := s.Pids()
	for pid, to := range map[int]*float64{server: &c.server, store: &c.store} {
		u, err := procfs.Of(pid)
		check(s.b, err)
		*to = u.CPU.Seconds()
	}
	c.seconds = time.Since(started).Seconds()
	return c
}

// counted are the meters of the API server, and of the watchers.
func (s *stand) counted(p *watchers) (c cost) {
	s.b.Helper()
	if p != nil {
		c.bytes, c.dials, c.slices, c.watches = p.carried()
	}
	text := s.metrics()
	for name, to := range map[string]*float64{"apiserver_request_total": &c.requests, "apiserver_watch_events_total": &c.events} {
		series := 0
		if *to, series = sum(text, name, ""); series == 0 {
			s.b.Fatalf("the API server has no metric %s", name)
		}
	}
	c.refused, _ = sum(text, "apiserver_request_total", `code="429"`) // nobody was refused before the first is
	return c
}

func (s *stand) metrics() string {
	s.b.Helper()
	text, err := s.Client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.b.Context())
	check(s.b, err)
	return string(text)
}

// watches are the watches that the API server has at the moment.
func (s *stand) watches() (n float64) {
	s.b.Helper()
	n, _ = sum(s.metrics(), "apiserver_longrunning_requests", `verb="WATCH"`)
	return n
}

var metric = regexp.MustCompile(`^([a-z_]+)\{(.*)\} ([0-9.e+-]+)$`)

// sum adds up the series of a metric that have a label; empty: all. It returns how many there are.
func sum(text, name, label string) (all float64, series int) {
	for line := range strings.Lines(text) {
		m := metric.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || m[1] != name || !strings.Contains(m[2], label) {
			continue
		}
		if n, err := strconv.ParseFloat(m[3], 64); err == nil {
			all, series = all+n, series+1
		}
	}
	return all, series
}

// memory is what the API server has in memory now, and what it had at most since resetPeak, in MiB.
func (s *stand) memory() (now, peak float64) {
	s.b.Helper()
	server, _ := s.Pids()
	u, err := procfs.Of(server)
	check(s.b, err)
	peak, err = procfs.Peak(server)
	check(s.b, err)
	return u.Memory, peak
}

func (s *stand) resetPeak() {
	s.b.Helper()
	server, _ := s.Pids()
	check(s.b, procfs.ResetPeak(server))
}

func TestSeriesOfAMetricAreAddedUp(t *testing.T) {
	const text = `# HELP apiserver_watch_events_total Number of events
apiserver_watch_events_total{group="",resource="nodes",version="v1"} 12
apiserver_watch_events_total{group="discovery.k8s.io",resource="endpointslices",version="v1"} 1.5e+03
apiserver_watch_events_totals{resource="endpointslices"} 7
`
	for label, want := range map[string]string{"": "1512 of 2", `resource="endpointslices"`: "1500 of 1", `resource="pods"`: "0 of 0"} {
		all, series := sum(text, "apiserver_watch_events_total", label)
		if got := fmt.Sprint(all, " of ", series); got != want {
			t.Errorf("with %s there are %s, want %s", label, got, want)
		}
	}
}

func TestACostAtTheSameRateGrowsWithTheTime(t *testing.T) {
	if got := (cost{seconds: 60, server: 3, events: 12}).during(20); got != (cost{seconds: 20, server: 1, events: 4}) {
		t.Errorf("it is %+v", got)
	}
}
