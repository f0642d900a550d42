//go:build privileged && timing

package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/provider/agent/plan"
	"plinth.dev/plinth/provider/agent/report"
)

// frr starts zebra and bgpd beside the router that there is, at 10.1.0.2, and returns
// what asks bgpd, and what its log is. BIRD has to listen at its own address alone.
func frr(t *testing.T) (ask func(string) string, log func() string) {
	t.Helper()
	ns := fmt.Sprintf("plt-agent-%d", os.Getpid())
	sh(t, "ip -n "+ns+" addr add 10.1.0.2/24 dev down0")
	dir, err := os.MkdirTemp("/var/run", "plt-agent-frr-") // its user has to reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	out := filepath.Join(dir, "bgpd.out")
	conf := "log file " + out + ` debugging
debug bgp neighbor-events
debug bgp updates in
router bgp 65002
 bgp router-id 10.1.0.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 timers bgp 3 9
 neighbor 10.1.0.11 remote-as 65010
 neighbor 10.1.0.11 timers connect 1
 neighbor 10.1.0.11 passive
 neighbor 10.1.0.11 update-source 10.1.0.2
 address-family ipv6 unicast
  neighbor 10.1.0.11 activate
 exit-address-family
`
	for name, text := range map[string]string{"bgpd": conf, "zebra": ""} {
		if err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, "chmod 755 "+dir)
	sh(t, "chown -R frr:frrvty "+dir)
	daemon := func(name string, args ...string) {
		c := exec.Command("ip", append([]string{"netns", "exec", ns, "/usr/lib/frr/" + name, "-u", "frr", "-g", "frr", "--vty_socket", dir,
			"-f", filepath.Join(dir, name+".conf"), "-i", filepath.Join(dir, name+".pid"), "-z", filepath.Join(dir, "zserv.api"), "-A", "127.0.0.1"}, args...)...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	ask = func(q string) string {
		out, _ := exec.Command("vtysh", "--vty_socket", dir, "-c", q).Output()
		return string(out)
	}
	daemon("zebra")
	eventually(t, "zebra answers", func() (bool, string) {
		_, err := os.Stat(filepath.Join(dir, "zserv.api"))
		return err == nil, ""
	})
	daemon("bgpd", "-l", "10.1.0.2")
	eventually(t, "bgpd answers", func() (bool, string) {
		s := ask("show bgp summary json")
		return strings.Contains(s, "{"), s
	})
	return ask, func() string {
		b, _ := os.ReadFile(out)
		return string(b)
	}
}

// side is one router as it sees the machine: what it holds, and what it logged.
type side struct {
	name      string
	holds     func() []string // sorted, never nil; nil if the router did not answer
	log       func() string
	warned    func(log, prefix string) int // where a route was last told with GRACEFUL_SHUTDOWN
	withdrawn string                       // what the log has of a route that goes, with its prefix for %s
}

func birdSide(ask func(string) string, log func() string) side {
	return side{
		name: "BIRD", log: log, withdrawn: "removed [sole] %s ",
		holds: func() []string {
			answer := ask("show route")
			if answer == "" {
				return nil
			}
			held := []string{}
			for line := range strings.Lines(answer) {
				if f := strings.Fields(line); len(f) > 1 && strings.Contains(f[0], "/") {
					held = append(held, f[0])
				}
			}
			slices.Sort(held)
			return held
		},
		warned: func(log, prefix string) int { return strings.LastIndex(log, "GRACEFUL_SHUTDOWN "+prefix+"\n") },
	}
}

func frrSide(ask func(string) string, log func() string) side {
	return side{
		name: "FRR", log: log, withdrawn: "rcvd UPDATE about %s ",
		holds: func() []string {
			held := []string{}
			for _, family := range []string{"ipv4", "ipv6"} {
				var table struct{ Routes map[string]any }
				if err := json.Unmarshal([]byte(ask("show bgp "+family+" unicast json")), &table); err != nil {
					return nil // vtysh could not ask
				}
				held = slices.AppendSeq(held, maps.Keys(table.Routes))
			}
			slices.Sort(held)
			return held
		},
		warned: func(log, prefix string) int {
			last, at, warning := -1, 0, false // an UPDATE's attributes come before its prefixes
			for line := range strings.Lines(log) {
				if strings.Contains(line, "rcvd UPDATE w/ attr") {
					warning = strings.Contains(line, "community graceful-shutdown")
				}
				if warning && strings.Contains(line, "rcvd "+prefix+" ") {
					last = at
				}
				at += len(line)
			}
			return last
		},
	}
}

// ends waits until the router was told why the session ended, and looks whether each
// route was told with GRACEFUL_SHUTDOWN, then withdrawn, and all of it before that.
func (r side) ends(t *testing.T, why string) {
	t.Helper()
	var before string
	eventually(t, r.name+" is told why", func() (bool, string) {
		log := r.log()
		i := strings.LastIndex(log, `"`+why+`"`)
		before = log[:max(i, 0)]
		return i >= 0, log
	})
	if i := strings.LastIndex(before, `"`+why+`"`); i >= 0 {
		before = before[i:] // the session before
	}
	for _, p := range dualRoutes {
		warned, withdrawn := r.warned(before, p), strings.LastIndex(before, fmt.Sprintf(r.withdrawn, p))
		if warned < 0 || withdrawn < warned {
			t.Errorf("%s: %s is not told with GRACEFUL_SHUTDOWN (%d), then withdrawn (%d), before the session ends:\n%s", r.name, p, warned, withdrawn, before)
		}
	}
}

// hold waits until each router has exactly these routes.
func hold(t *testing.T, sides []side, want ...string) {
	t.Helper()
	for _, r := range sides {
		eventually(t, fmt.Sprintf("%s holds %v", r.name, want), func() (bool, string) {
			held := r.holds()
			return held != nil && slices.Equal(held, want), fmt.Sprint(held)
		})
	}
}

// TestADrainWarnsWaitsWithdrawsAndEndsWithAReason has an agent drain when it is asked to,
// another one when it is stopped, and one of which that was not asked when its machine
// shuts down.
func TestADrainWarnsWaitsWithdrawsAndEndsWithAReason(t *testing.T) {
	const drainTime = 2 * time.Second
	askBIRD, configure, logBIRD := routerWithout(t)
	configure("strict bind on; source address 10.1.0.1; debug { states, routes, events };")
	askFRR, logFRR := frr(t)
	sides := []side{birdSide(askBIRD, logBIRD), frrSide(askFRR, logFRR)}
	inv := dual(t, "asn: 65001}]", "asn: 65001}, {name: edge, address: 10.1.0.2, asn: 65002}]")
	client := fake.NewClientset(dualService()...)
	begin := func(withdraw bool) running {
		a := start(t, client, inv, t.TempDir(), "", func(o *Options) { o.WithdrawOnStop, o.DrainTime = withdraw, drainTime })
		hold(t, sides, dualRoutes...)
		return a
	}
	waited := func(since time.Time) {
		t.Helper()
		if took := time.Since(since); took < drainTime {
			t.Errorf("all was withdrawn after %v, the drain time is %v", took, drainTime)
		}
	}

	t.Log("the agent is asked to drain")
	a := begin(true)
	asked := time.Now()
	a.Drain()
	hold(t, sides)
	waited(asked)
	s := a.show(t)
	if !s.Withdrawn || slices.ContainsFunc(s.Sessions, func(x report.SessionStatus) bool { return !x.Up || x.Losses > 0 }) {
		t.Errorf("after the drain: withdrawn %v, sessions %+v", s.Withdrawn, s.Sessions)
	}
	a.stop()
	for _, r := range sides {
		r.ends(t, "the agent was stopped")
	}

	stop := func(a running) {
		t.Helper()
		asked := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.stop()
		}()
		hold(t, sides)
		waited(asked)
		<-ended
		for _, r := range sides {
			r.ends(t, "the agent was stopped")
		}
	}
	t.Log("the agent is stopped")
	stop(begin(true))

	t.Log("the agent is stopped since the machine shuts down")
	a = begin(false)
	kubeletSays := func(ready corev1.ConditionStatus, message string) {
		n, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: message}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
	kubeletSays(corev1.ConditionFalse, plan.ShuttingDown)
	eventually(t, "the agent knows", func() (bool, string) {
		self, ok := a.sources.Self()
		return ok && self.ShuttingDown, fmt.Sprintf("%+v", self)
	})
	stop(a)

	t.Log("the kubelet says so a moment after it has stopped the agent")
	kubeletSays(corev1.ConditionTrue, "kubelet is posting ready status")
	a = begin(false)
	go func() {
		<-time.After(300 * time.Millisecond)
		kubeletSays(corev1.ConditionFalse, plan.ShuttingDown)
	}()
	stop(a)
}
