package real

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plinth.dev/plinth/test/lab"
)

func TestTheGuideLeadsToServicesThatAnswer(t *testing.T) {
	l, g := installed(t)
	out, err := g.Run(t.Context(), "kubectl plinth status; kubectl get nodes -L topology.kubernetes.io/zone,plinth.dev/rack")
	must(t, err)
	t.Log(out)
	must(t, l.WaitPods(t.Context(), 2*time.Minute, "kube-system", "k8s-app=kube-dns"))
	for _, vip := range service(t, l, "web", corev1.ServiceExternalTrafficPolicyCluster) {
		must(t, l.WaitAnnounced(t.Context(), vip))
	}
}

func TestTheContainersHaveTheirRightsAndNoMore(t *testing.T) {
	l, _ := installed(t)
	first := l.Topology.Machines()[0].Name
	for _, c := range []struct {
		program string
		want    []string
	}{
		{"plinth-agent", []string{"Uid:\t0\t0\t0\t0", "CapEff:\t0000000000001000", "CapBnd:\t0000000000001000", "CapInh:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"}},
		{"plinth-cloud-controller-manager", []string{"Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"}},
	} {
		pid, err := l.InMachine(t.Context(), first, "pgrep", "--full", "^/"+c.program)
		must(t, err)
		status, err := l.InMachine(t.Context(), first, "cat", "/proc/"+strings.TrimSpace(pid)+"/status")
		must(t, err)
		for _, line := range c.want {
			if !strings.Contains(status, line+"\n") {
				t.Errorf("%s: its status has no line %q:\n%s", c.program, line, status)
			}
		}
		mounts, err := l.InMachine(t.Context(), first, "cat", "/proc/"+strings.TrimSpace(pid)+"/mounts")
		must(t, err)
		root, _, _ := strings.Cut(mounts, "\n")
		if fields := strings.Fields(root); len(fields) < 4 || fields[1] != "/" || !strings.HasPrefix(fields[3], "ro,") {
			t.Errorf("%s: its root can be written to: %s", c.program, root)
		}
	}
}

// service runs web servers and a Service of the same name for the length of a story, and
// returns its VIPs once they answer.
func service(t *testing.T, l *lab.Lab, name string, policy corev1.ServiceExternalTrafficPolicy) []netip.Addr {
	t.Helper()
	web := lab.Web{Name: name, Replicas: int32(len(l.Topology.Machines()))}
	t.Cleanup(func() {
		ctx := context.Background()
		if _, err := l.VIPs(ctx, name); err == nil {
			if err := l.RemoveService(ctx, name); err != nil {
				t.Error(err)
			}
		}
		if err := l.RemoveWeb(ctx, web); err != nil {
			t.Error(err)
		}
	})
	must(t, l.RunWeb(t.Context(), web))
	s := lab.LoadBalancer(name, name)
	s.Spec.ExternalTrafficPolicy = policy
	vips, err := l.Expose(t.Context(), s)
	must(t, err)
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
	}
	return vips
}

// clients sends requests to all VIPs for the length of a story.
type clients map[netip.Addr]*lab.Prober

func probe(t *testing.T, l *lab.Lab, vips []netip.Addr, rate int) clients {
	t.Helper()
	all := clients{}
	for _, vip := range vips {
		p := l.Probe(t.Context(), lab.URL(vip, lab.WebPort), rate)
		t.Cleanup(func() { p.Stop() })
		all[vip] = p
	}
	return all
}

// lostNone ends the clients, each of which has had an answer to every request, none of
// them after more than half a second: a SYN that was lost is sent again after one.
func (c clients) lostNone(t *testing.T, during string) {
	t.Helper()
	for vip, p := range c {
		r := p.Stop()
		t.Logf("%s: %s: %s", during, vip, r)
		if r.Sent == 0 || r.Lost > 0 || r.Slow > 0 {
			t.Errorf("%s: %s: %s", during, vip, r)
		}
	}
}

// lostNoneButCut is lostNone where routers move flows to other machines: a connection that is
// open in that moment may be reset, which no router without connection tracking can help. More
// than two of a client's would be another fault: it has 25 requests a second, of milliseconds.
func (c clients) lostNoneButCut(t *testing.T, during string) {
	t.Helper()
	for vip, p := range c {
		r := p.Stop()
		t.Logf("%s: %s: %s", during, vip, r)
		if r.Sent == 0 || r.Lost > len(r.Cuts) || len(r.Cuts) > 2 || r.Slow > 0 {
			t.Errorf("%s: %s: %s", during, vip, r)
		}
	}
}

// answeredAll ends the clients, each of which has had an answer to every request, and none
// of them to a second SYN, which is sent after a second: a request is lost after 0.8. While
// a machine boots, and fills an empty disk, all others of the lab have less of the host's
// cores, so what took more than half a second is only told.
func (c clients) answeredAll(t *testing.T, during string) {
	t.Helper()
	for vip, p := range c {
		r := p.Stop()
		t.Logf("%s: %s: %s", during, vip, r)
		if r.Sent == 0 || r.Lost > 0 {
			t.Errorf("%s: %s: %s", during, vip, r)
		}
	}
}

// answeredAllButCut is answeredAll where a machine joins, so that routers move flows to it: see
// lostNoneButCut.
func (c clients) answeredAllButCut(t *testing.T, during string) {
	t.Helper()
	for vip, p := range c {
		r := p.Stop()
		t.Logf("%s: %s: %s", during, vip, r)
		if r.Sent == 0 || r.Lost > len(r.Cuts) || len(r.Cuts) > 2 {
			t.Errorf("%s: %s: %s", during, vip, r)
		}
	}
}

// lostOnlyAfter ends the clients, which have lost nothing but what a power cut costs.
func (c clients) lostOnlyAfter(t *testing.T, cut time.Time) {
	t.Helper()
	for vip, p := range c {
		r := p.Stop()
		t.Logf("power cut: %s: %s", vip, r)
		// The hold time is 3 s (RFC 4271, section 4.2), counted from the last message.
		if last := r.LastLoss.Sub(cut); r.Lost > 0 && last > 4*time.Second {
			t.Errorf("%s: a request was lost %s after the power cut: %s", vip, last, r)
		}
	}
}
