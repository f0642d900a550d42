//go:build privileged

package onlink

import (
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// latencies asks again and again, and returns how long each answer took, sorted.
func latencies(b *testing.B, from *tap, n int, self, addr netip.Addr) (took []time.Duration) {
	for range n {
		began := time.Now()
		from.mustSend(question(from.mac, self, addr, MAC{}))
		if from.next(time.Second, func(_ []byte, p packet) bool { return p.answers && p.asserts == addr }) == nil {
			b.Fatal("no answer for", addr)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

// BenchmarkAnswer is how long a client waits for the answer to a request, and in turn how
// long for that of the kernel of the same host for its own address.
func BenchmarkAnswer(b *testing.B) {
	for _, f := range bothFamilies {
		b.Run(f.name, func(b *testing.B) {
			lan := newLAN(b)
			owner, client := lan.host(1), lan.host(2)
			set(b, owner.responder(nil), f.link(owner, f.addr(100)))
			from := client.tap("eth0", f.etherType)
			const each = 100
			took := map[string][]time.Duration{}
			for b.Loop() {
				for name, addr := range map[string]netip.Addr{"plinth": f.addr(100), "kernel": f.addr(1)} {
					took[name] = append(took[name], latencies(b, from, each, f.addr(2), addr)...)
				}
			}
			for name, all := range took {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
				b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
			}
		})
	}
}

// BenchmarkFlood is what requests for other addresses cost: how many of them arrive in a
// second, the share of one CPU that this process takes besides sending them and asking, and
// the latency of an answer meanwhile.
func BenchmarkFlood(b *testing.B) {
	for _, f := range bothFamilies {
		b.Run(f.name, func(b *testing.B) {
			lan := newLAN(b)
			owner, client, noisy := lan.host(1), lan.host(2), lan.host(3)
			r := owner.responder(nil)
			set(b, r, f.link(owner, f.addr(100)))
			from, flood := client.tap("eth0", f.etherType), noisy.tap("eth0", f.etherType)
			if err := from.setFilter(filter(audible{answered: []netip.Addr{f.addr(100)}}, f.addr(1).Is4())); err != nil { // the flood reaches the client, too
				b.Fatal(err)
			}
			l := r.links[f.link(owner).Subnet]
			l.woken(b)
			stop, sent := make(chan struct{}), 0
			var cpu time.Duration
			var done sync.WaitGroup
			began := time.Now()
			done.Go(func() { sent, cpu = pour(flood, question(flood.mac, f.addr(3), f.addr(99), MAC{}), stop) })
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			before, asker := processCPU(b), threadCPU()
			var took []time.Duration
			for b.Loop() {
				<-time.After(time.Millisecond)
				took = append(took, latencies(b, from, 1, f.addr(2), f.addr(100))...)
			}
			asked := threadCPU() - asker
			close(stop)
			done.Wait()
			elapsed, spent := time.Since(began), processCPU(b)-before
			slices.Sort(took)
			b.ReportMetric(float64(sent)/elapsed.Seconds(), "frames/s")
			b.ReportMetric(100*(spent-cpu-asked).Seconds()/elapsed.Seconds(), "cpu-%")
			b.ReportMetric(float64(l.woken(b))/float64(len(took)), "woken/answer")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// pour sends a frame 100,000 times a second, and tells how often it did and what CPU its
// thread took, in which the kernel also delivers the frames.
func pour(to *tap, frame []byte, stop chan struct{}) (sent int, cpu time.Duration) {
	runtime.LockOSThread()
	before := threadCPU()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-stop:
			return sent, threadCPU() - before
		case <-tick.C:
		}
		for due := int(time.Since(began).Microseconds() / 10); sent < due; sent++ {
			_ = to.send(frame)
		}
	}
}

func processCPU(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func threadCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
