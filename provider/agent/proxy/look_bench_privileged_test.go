//go:build privileged && timing

package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"plinth.dev/plinth/lb/advertise"
	"plinth.dev/plinth/lb/kubeproxy"
	"plinth.dev/plinth/netns"
)

// TestMain runs the benchmark again in a network namespace of its own: the machine.
func TestMain(m *testing.M) { netns.Main(m) }

func nft(b *testing.B, transaction string) {
	b.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(transaction)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("nft: %v\n%s", err, out)
	}
}

// BenchmarkALookForRules is what an agent does each second for 3,000 VIPs of one family, in a map of kube-proxy's with 20,000
// others: while all is well, and while all rules are gone ("ms/look"). It gives the share of a processor, too.
func BenchmarkALookForRules(b *testing.B) {
	nft(b, "table ip kube-proxy {\nchain external-X { }\nmap service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }\n}\n")
	var elements []string
	element := func(a netip.Addr) string { return a.String() + " . tcp . 80 : goto external-X" }
	a := netip.MustParseAddr("10.96.0.0")
	for range 20_000 {
		a = a.Next()
		elements = append(elements, element(a))
	}
	passing := make([]advertise.Question, 3000)
	for i := range passing {
		a = a.Next()
		passing[i] = advertise.Question{VIP: a, Frontend: advertise.Frontend{Ports: "80/TCP", Shown: true}, Seen: true}
		elements = append(elements, element(a))
	}
	nft(b, "add element ip kube-proxy service-ips { "+strings.Join(elements, ", ")+" }\n")
	for _, state := range []struct {
		name string
		gone int
	}{{"all are there", 0}, {"all are gone", len(passing)}} {
		b.Run(fmt.Sprintf("of %d VIPs, %s", len(passing), state.name), func(b *testing.B) {
			l := lookout{prober: &kubeproxy.Prober{}}
			if state.gone > 0 {
				nft(b, "flush map ip kube-proxy service-ips\n")
			}
			l.update(passing)
			l.look(context.Background(), kubeproxy.Round{})
			if len(l.missing) != state.gone {
				b.Fatalf("%d are missing, want %d", len(l.missing), state.gone)
			}
			for b.Loop() {
				l.look(context.Background(), kubeproxy.Round{})
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/look")
			b.ReportMetric(100*float64(b.Elapsed())/float64(b.N)/float64(lookEvery), "%processor")
		})
	}
}
