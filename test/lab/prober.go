package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"plinth.dev/plinth/test/lab/netns"
	"plinth.dev/plinth/test/still"
)

// Prober sends requests from the outside client at a steady rate, each over a
// connection of its own, until it is stopped.
type Prober struct {
	stop   context.CancelFunc
	sent   sync.WaitGroup // the one that sends, and requests under way
	mu     sync.Mutex
	probes []probe
	since  time.Time   // of those that count
	stalls still.Watch // of this machine
	// under returns the probes where they are kept elsewhere while they are under way.
	under func() []probe
	// countDrops counts by namespace what the testbed itself has dropped so far; nil: nothing of it counts.
	countDrops func() map[string]int
	drops      map[string]int // when the report began
}

// probeTimeout is how long a request may take until it counts as lost. It is less
// than the second after which TCP says a lost SYN again.
const probeTimeout = 800 * time.Millisecond

// dialTimeout ends an attempt to connect before its request, whose own end would hide the reason.
const dialTimeout = probeTimeout - 50*time.Millisecond

// slowly is more than any answer takes that nothing was lost of.
const slowly = 500 * time.Millisecond

type probe struct {
	at   time.Time
	took time.Duration
	node string // that answered
	err  error
	// begun is when its first SYN was sent, where its connection was established and then reset.
	begun time.Time
}

// Probe starts a prober of so many requests a second.
func (l *Lab) Probe(ctx context.Context, url string, rate int) *Prober {
	return l.ProbeFrom(ctx, clientHost, url, rate)
}

// ProbeFrom is Probe from another host of the lab than the outside client.
func (l *Lab) ProbeFrom(ctx context.Context, host, url string, rate int) *Prober {
	ctx, stop := context.WithCancel(ctx)
	p := &Prober{stop: stop}
	go p.stalls.Run(ctx)
	dialer := netns.NewDialer(l.Namespace(host))
	client := l.everNew(host, dialer)
	p.sent.Go(func() {
		atRate(ctx, rate, func(at time.Time) { p.sent.Go(func() { p.one(client, url, at) }) })
	})
	context.AfterFunc(ctx, func() {
		p.sent.Wait()
		dialer.Close()
	})
	return p
}

// atRate calls do so often a second until ctx ends.
func atRate(ctx context.Context, rate int, do func(at time.Time)) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			do(at)
		}
	}
}

func (p *Prober) one(client *http.Client, url string, at time.Time) {
	// Not the prober's own context: what is under way when it stops is waited for.
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var begun atomic.Pointer[time.Time]
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(string, string) {
			now := time.Now()
			begun.Store(&now)
		},
	})
	a, err := request(ctx, client, url)
	done := probe{at: at, took: time.Since(at), node: a.Node, err: err}
	// A reset before there was an answer to the SYN is ECONNREFUSED (tcp_reset of Linux 6.1).
	if errors.Is(err, syscall.ECONNRESET) {
		done.begun = *begun.Load()
	}
	p.add(done)
}

func (p *Prober) add(one probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes = append(p.probes, one)
}

// Forget lets a report begin with the requests that are sent from now on.
func (p *Prober) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	if p.countDrops != nil {
		p.drops = p.countDrops()
	}
}

// Steady waits until requests have had answers, and none was lost, for so long.
func (p *Prober) Steady(ctx context.Context, calm time.Duration) error {
	from := time.Now()
	return Within(ctx, time.Minute, func(context.Context) error {
		r := p.Report()
		if r.LastLoss.After(from) {
			from = r.LastLoss
		}
		if r.Sent == 0 || time.Since(from) < calm {
			return fmt.Errorf("%s", r)
		}
		return nil
	})
}

// Stop ends the prober, waits for the requests under way and says how it went.
func (p *Prober) Stop() Report {
	p.stop()
	p.sent.Wait()
	r := p.Report()
	if p.countDrops != nil {
		for space, n := range p.countDrops() {
			r.Dropped += max(0, n-p.drops[space])
		}
	}
	return r
}

// Report says how it went so far. Requests under way are in none of its numbers.
func (p *Prober) Report() Report {
	probes := p.settled()
	slices.SortFunc(probes, func(a, b probe) int { return a.at.Compare(b.at) })
	r := Report{Sent: len(probes), Nodes: map[string]int{}, Errors: map[string]int{}}
	var gapFrom time.Time
	for _, one := range probes {
		stood := p.stalls.Within(one.at, one.at.Add(one.took))
		if one.gaveUpWhile(stood) {
			r.Stalled++
			continue
		}
		if one.err != nil {
			r.Lost++
			r.Errors[lastWords(one.err)]++
			r.Losses = append(r.Losses, one.at)
			if errors.Is(one.err, syscall.EHOSTUNREACH) {
				r.SentBack = append(r.SentBack, one.at)
			}
			if !one.begun.IsZero() {
				r.Cuts = append(r.Cuts, Cut{Sent: one.at, Begun: one.begun, Reset: one.at.Add(one.took)})
			}
			if r.FirstLoss.IsZero() {
				r.FirstLoss = one.at
			}
			if gapFrom.IsZero() {
				gapFrom = one.at
			}
			r.LastLoss = one.at
			r.Longest = max(r.Longest, one.at.Sub(gapFrom))
			continue
		}
		gapFrom = time.Time{}
		if answered := one.at.Add(one.took); r.FirstAnswer.IsZero() || answered.Before(r.FirstAnswer) {
			r.FirstAnswer = answered
		}
		switch {
		case one.took <= slowly:
		case one.took-stood <= slowly:
			r.Stalled++
		default:
			r.Slow++
			r.Late = append(r.Late, one.at)
		}
		if one.node != "" { // an echo does not say
			r.Nodes[one.node]++
		}
	}
	return r
}

// gaveUpWhile reports whether a request had no answer for so little time, but for that in which this
// machine stood still, that nobody can tell whether it was lost.
func (p probe) gaveUpWhile(stood time.Duration) bool {
	return errors.Is(p.err, context.DeadlineExceeded) && p.took-stood <= slowly
}

// settled returns what has ended of what counts.
func (p *Prober) settled() []probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	probes := slices.Clone(p.probes)
	if p.under != nil {
		probes = p.under()
	}
	return slices.DeleteFunc(probes, func(one probe) bool { return one.at.Before(p.since) })
}

// Stalled is for how long this machine itself stood still in a span of time.
func (p *Prober) Stalled(from, to time.Time) time.Duration {
	return p.stalls.Within(from, to)
}

// Report is what became of a prober's requests.
type Report struct {
	Sent, Lost          int
	Slow                int            // answers after more than half a second
	Stalled             int            // answers that took as long, or were given up, since this machine stood still
	Dropped             int            // UDP packets that came, and that programs of the lab read too late; Stop counts them
	Longest             time.Duration  // from the first to the last of the longest row of lost requests
	FirstAnswer         time.Time      // when it came; zero: there was none
	FirstLoss, LastLoss time.Time      // when they were sent; zero: none was lost
	Losses, Late        []time.Time    // when each was sent that was lost, or had its answer slowly
	Cuts                []Cut          // those of them whose connection was established, and then reset
	SentBack            []time.Time    // those of them whose SYN went no further, as a router said
	Nodes               map[string]int // answers by the node that the pod was on
	Errors              map[string]int // losses by their reason
}

// Cut is a request whose connection was begun, established and then reset.
type Cut struct{ Sent, Begun, Reset time.Time }

func (r Report) String() string {
	text := fmt.Sprintf("%d requests, %d lost", r.Sent, r.Lost)
	if r.Lost > 0 {
		text += fmt.Sprintf(" (within %s, longest row %s)", r.LastLoss.Sub(r.FirstLoss).Round(time.Millisecond), r.Longest.Round(time.Millisecond))
	}
	if len(r.Cuts) > 0 {
		text += fmt.Sprintf(", %d of them reset while under way", len(r.Cuts))
	}
	if r.Slow > 0 {
		text += fmt.Sprintf(", %d answers after more than %s", r.Slow, slowly)
	}
	if r.Stalled > 0 {
		text += fmt.Sprintf(", %d after more than %s or given up since this machine stood still", r.Stalled, slowly)
	}
	if r.Dropped > 0 {
		text += fmt.Sprintf(", the testbed dropped %d that its programs read too late", r.Dropped)
	}
	if len(r.Nodes) > 0 {
		text += ", answered by " + counts(r.Nodes)
	}
	if len(r.Errors) > 0 {
		text += "; errors: " + counts(r.Errors)
	}
	return text
}

// counts writes a histogram, the greatest count first.
func counts(m map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], strings.Compare(a, b)) })
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(keys, ", ")
}

// lastWords is the end of an error, where what the kernel said stands.
func lastWords(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
}
