package upgrades

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/bench/results"
	"plinth.dev/plinth/test/components"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/real"
)

const (
	// olderVersion is what the images of the older commit are called.
	olderVersion = "v0.0.1"
	// rate is how many connections a second a client opens to each VIP.
	rate = 25
	// watched is for how long clients go on when all is in order: routers remember the routes of a session that
	// does not come back for 20 s, the restart time of the lab's inventory.
	watched = 30 * time.Second
	// excused is the share of connections that may be of those that nobody can tell of.
	excused = 0.01
)

// BenchmarkUpgrade upgrades Plinth from an older commit to this one, and goes back, again and again, while clients
// connect to a Service of each externalTrafficPolicy in both families. It counts the connections that they opened
// ("connections"), those that were lost, reset or answered after more than half a second ("lost"): no router has a reason
// to move them; and those of which nobody can tell since this machine stood still ("stalled"), of all rounds. It measures
// how long helm upgrade takes, until all is in order ("s/rollout"). A result is named upgrade or downgrade/mode of
// kube-proxy/router/policy.
func BenchmarkUpgrade(b *testing.B) {
	ctx := b.Context()
	here, err := components.Root()
	check(b, err)
	older := checkOut(b, here)
	images, err := real.MakeImages(ctx, older, olderVersion)
	check(b, err)
	_, err = real.MakeImages(ctx, here, real.Version)
	check(b, err)
	g, err := real.Start(ctx, real.Options{Name: labName, ProxyMode: *proxyMode, RouterOS: *routerOS, Images: images})
	check(b, err)
	check(b, g.Prepare(ctx))
	check(b, g.UpgradeTo(ctx, older, olderVersion))
	s := &stand{b: b, g: g, measured: results.New(*rounds), tally: results.Tally{}}
	vips := s.serve()
	for i := range *rounds {
		s.change("upgrade", here, real.Version, vips)
		s.change("downgrade", older, olderVersion, vips)
		fmt.Fprintf(os.Stderr, "round %d of %d: %+v\n", i+1, *rounds, s.tally)
	}
	s.tally.Into(s.measured)
	s.measured.Report(b)
	check(b, s.tally.TooManyExcused(excused))
}

// checkOut is a source tree of the older commit.
func checkOut(b *testing.B, root string) (folder string) {
	b.Helper()
	if *from == "" {
		b.Fatal("-from=COMMIT is needed: which commit is upgraded")
	}
	check(b, os.Mkdir(olderTree, 0o755))
	check(b, components.Own(olderTree))
	git(b, "clone", "--quiet", "--no-checkout", root, olderTree)
	git(b, "-C", olderTree, "checkout", "--quiet", "--detach", *from)
	if git(b, "-C", olderTree, "rev-parse", "HEAD") == git(b, "-C", root, "rev-parse", "HEAD") {
		b.Fatalf("-from=%s is the commit that is measured", *from)
	}
	return olderTree
}

func git(b *testing.B, arguments ...string) string {
	b.Helper()
	out, err := components.AsCaller(exec.CommandContext(b.Context(), "git", arguments...)).CombinedOutput()
	if err != nil {
		b.Fatalf("git %v: %v\n%s", arguments, err, out)
	}
	return strings.TrimSpace(string(out))
}

// stand is a cluster with Plinth, whose Services clients connect to.
type stand struct {
	b        *testing.B
	g        *real.Guide
	measured *results.Results
	tally    results.Tally
}

// serve has pods on all machines, behind a Service of each policy, and returns their VIPs.
func (s *stand) serve() map[corev1.ServiceExternalTrafficPolicy][]netip.Addr {
	s.b.Helper()
	ctx, l := s.b.Context(), s.g.Lab
	all := map[corev1.ServiceExternalTrafficPolicy][]netip.Addr{}
	check(s.b, l.RunWeb(ctx, lab.Web{Name: "web", Everywhere: true}))
	for policy, name := range map[corev1.ServiceExternalTrafficPolicy]string{
		corev1.ServiceExternalTrafficPolicyCluster: "everywhere", corev1.ServiceExternalTrafficPolicyLocal: "local",
	} {
		service := lab.LoadBalancer(name, "web")
		service.Spec.ExternalTrafficPolicy = policy
		vips, err := l.Expose(ctx, service)
		check(s.b, err)
		for _, vip := range vips {
			check(s.b, l.WaitServed(ctx, vip))
			check(s.b, l.WaitAnnounced(ctx, vip))
		}
		all[policy] = vips
	}
	return all
}

// change rolls out the chart and the images of a source tree while clients connect.
func (s *stand) change(way, source, version string, vips map[corev1.ServiceExternalTrafficPolicy][]netip.Addr) {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 15*time.Minute)
	defer cancel()
	clients := map[corev1.ServiceExternalTrafficPolicy][]*lab.Prober{}
	for policy, all := range vips {
		for _, vip := range all {
			clients[policy] = append(clients[policy], s.g.Lab.Probe(ctx, lab.URL(vip, lab.WebPort), rate))
		}
	}
	begun := time.Now()
	check(s.b, s.g.UpgradeTo(ctx, source, version))
	took := time.Since(begun)
	check(s.b, lab.Within(ctx, time.Minute, func(ctx context.Context) error { return s.images(ctx, version) }))
	time.Sleep(watched)
	for policy, all := range clients {
		name := fmt.Sprintf("%s/%s/%s/%s", way, *proxyMode, *routerOS, policy)
		s.measured.Of(name).Add("s/rollout", took.Seconds())
		for _, c := range all {
			r := c.Stop()
			fmt.Fprintf(os.Stderr, "%s: %s\n", name, r)
			s.tally.Add(name, results.Connections{Opened: r.Sent, Lost: r.Lost + r.Slow, Stalled: r.Stalled})
		}
	}
}

// images says which of Plinth's pods runs no image of a version. One of before may take a while to end.
func (s *stand) images(ctx context.Context, version string) error {
	out, err := s.g.Run(ctx, "kubectl -n "+lab.PlinthNamespace+` get pods --field-selector=status.phase=Running -o jsonpath='{range .items[*]}{.spec.containers[0].image}{"\n"}{end}'`)
	if err != nil {
		return err
	}
	return allOf(out, version)
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
