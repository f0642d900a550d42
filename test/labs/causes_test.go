package labs

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/guide"
	"plinth.dev/plinth/test/lab"
	"plinth.dev/plinth/test/lab/netns"
)

// causeTold is how soon status and why know why a session is down: a machine's condition changes its words once in 30
// seconds at most, and a cause takes some attempts, of which each waits longer than the one before.
const causeTold = 90 * time.Second

// forgotten is how long a session is up until losses of before do not count any more: else the next one is flapping, and its
// cause is looked for later each time.
const forgotten = 31 * time.Second

// fault is what befalls a router, and the cause that is found.
type fault struct {
	router string
	happen func(t *testing.T, l *lab.Lab, router string) (undo func())
	cause  string
}

// TestEveryCauseOfALostSessionIsFoundFarFromItsMachine has each router meet another fault, both at a time, and asks
// status and why, which learn of it by the API server alone. Package e2e provokes the others.
func TestEveryCauseOfALostSessionIsFoundFarFromItsMachine(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "caused", 4)
	story.Announced(t, l, story.Expose(t, l, lab.LoadBalancer("caused", "caused"))) // a second prefix of each family
	must(t, l.WaitFabric(t.Context()))
	var seen []string
	for _, both := range [][]fault{
		{{"tor-r1", dropsBGP, "NoAnswer"}, {"tor-r2", withoutWay, "Unreachable"}},
		{{"tor-r1", limited, "PrefixLimit"}, {"tor-r2", answers(notification(6, 5)), "RouterRefused"}},
		{{"tor-r1", answers("SSH-2.0-OpenSSH_9.2\r\n"), "MalformedMessage"}, {"tor-r2", answers(open(65102, 1)), "OpenRefused"}},
		{{"tor-r1", answers(notification(6, 7)), "SessionTaken"}, {"tor-r2", answers(""), "ClosedByRouter"}},
		{{"tor-r1", answers(notification(6, 10)), "PathDown"}, {"tor-r2", resets, "Flapping"}},
		{{"tor-r1", answers(notification(4, 0)), "HoldTimerExpired"}},
	} {
		seen = append(seen, meet(t, l, both)...)
	}
	seen = append(seen, passwords(t, l)...)

	unseen, err := guide.Unseen("reasons.md", "Why a session is down", slices.Concat(seen,
		story.CausesOfE2E, []string{"Connecting"})) // the last is over before anybody asks
	must(t, err)
	if len(unseen) > 0 {
		t.Errorf("no story provokes %q", unseen)
	}
}

// passwords has sessions need a password that is not in the Secret, that the router has not, and that is too long for
// any kernel (TCP_MD5SIG_MAXKEYLEN is 80 octets). It returns the causes that were found.
func passwords(t *testing.T, l *lab.Lab) (causes []string) {
	t.Helper()
	usual := lab.Inventory(l.Topology)
	untried := story.Edited(t, usual, "  podNetwork:\n", "  safety: {sessionTrial: 0s}\n  podNetwork:\n")
	t.Cleanup(func() {
		must(t, l.ApplyInventory(context.Background(), usual))
		must(t, l.WaitFabric(context.Background()))
	})
	must(t, l.ApplyInventory(t.Context(), untried))
	must(t, lab.Within(t.Context(), 20*time.Second, func(ctx context.Context) error {
		accepted, err := l.Kube.CoreV1().ConfigMaps(lab.PlinthNamespace).Get(ctx, "plinth-accepted", metav1.GetOptions{})
		if err == nil && !strings.Contains(accepted.Data["inventory.yaml"], "sessionTrial") {
			err = errors.New("the edit that has nothing tried is not in force")
		}
		return err
	}))
	_, err := l.Kube.CoreV1().Secrets(lab.PlinthNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: lab.PasswordSecret},
		StringData: map[string]string{"unknown": "of which routers know nothing", "long": strings.Repeat("p", 81)},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, l.Kube.CoreV1().Secrets(lab.PlinthNamespace).Delete(context.Background(), lab.PasswordSecret, metav1.DeleteOptions{}))
	})
	with := func(text, language, key string) string {
		return story.Edited(t, text, ", os: "+language+"}", ", os: "+language+", passwordFrom: {secret: "+lab.PasswordSecret+", key: "+key+"}}")
	}
	for _, keys := range []struct {
		r1, r2 string
		causes [2]string
	}{
		{"missing", "unknown", [2]string{"PasswordMissing", "PasswordMismatch"}},
		{"long", "missing", [2]string{"Misconfigured", "PasswordMissing"}},
	} {
		must(t, l.ApplyInventory(t.Context(), with(with(untried, lab.FRR, keys.r1), lab.BIRD, keys.r2)))
		found(t, l, "tor-r1", keys.causes[0])
		found(t, l, "tor-r2", keys.causes[1])
		causes = append(causes, keys.causes[:]...)
	}
	return causes
}

// meet has the faults happen, waits until the cause of each was found, and undoes them. It returns the causes.
func meet(t *testing.T, l *lab.Lab, both []fault) (causes []string) {
	t.Helper()
	var undo []func()
	for _, f := range both {
		once := sync.OnceFunc(f.happen(t, l, f.router))
		t.Cleanup(once)
		undo = append(undo, once)
	}
	for _, f := range both {
		found(t, l, f.router, f.cause)
		causes = append(causes, f.cause)
	}
	for _, u := range undo {
		u()
	}
	must(t, l.WaitFabric(t.Context()))
	story.PauseFor(t, forgotten)
	return causes
}

// found waits until status and why name the cause for each machine of a router's racks.
func found(t *testing.T, l *lab.Lab, router string, cause string) {
	t.Helper()
	begun := time.Now()
	must(t, lab.Within(t.Context(), causeTold, func(ctx context.Context) error {
		if err := story.BrokenAt(ctx, l, "router/"+router, "fabric", cause); err != nil {
			return err
		}
		for _, m := range machinesOf(l, router) {
			if err := errors.Join(story.InStatus(ctx, l, m, cause), story.BrokenAt(ctx, l, "node/"+m, "fabric", cause)); err != nil {
				return err
			}
		}
		return nil
	}))
	t.Logf("%s of %s is found after %v", cause, router, time.Since(begun).Round(time.Second))
}

// machinesOf lists the machines that peer with a router.
func machinesOf(l *lab.Lab, router string) (names []string) {
	for _, rack := range l.Topology.Racks {
		if slices.Contains(rack.Routers, router) {
			for _, m := range rack.Machines {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// dropsBGP has the router drop packets of BGP, without a word.
func dropsBGP(t *testing.T, l *lab.Lab, router string) func() {
	t.Helper()
	nft := func(lines string) {
		_, err := netns.Output(context.Background(), l.Namespace(router), "nft", lines)
		must(t, err)
	}
	nft(`table inet deaf { chain in { type filter hook input priority 0; tcp dport 179 drop; tcp sport 179 drop; }; chain out { type filter hook output priority 0; tcp sport 179 drop; tcp dport 179 drop; }; }`)
	return func() { nft("delete table inet deaf") }
}

// withoutWay has the kernels of the router's machines refuse to send to it.
func withoutWay(t *testing.T, l *lab.Lab, router string) func() {
	t.Helper()
	i := slices.IndexFunc(l.Topology.Racks, func(rack lab.Rack) bool { return slices.Contains(rack.Routers, router) })
	at := l.Topology.RouterAddress(router, l.Topology.Racks[i].Name)
	routes := func(how string) {
		for _, m := range machinesOf(l, router) {
			must(t, netns.IP(l.Namespace(m), "route "+how+" unreachable "+lab.VIPPrefix(at.V4).String(), "route "+how+" unreachable "+lab.VIPPrefix(at.V6).String()))
		}
	}
	routes("add")
	return func() { routes("del") }
}

// limited has the router take one prefix of each family.
func limited(t *testing.T, l *lab.Lab, router string) func() {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	must(t, os.WriteFile(file, []byte(lab.Inventory(l.Topology)), 0o644))
	r, _ := l.Topology.Router(router)
	usual, err := l.RouterConfig(t.Context(), r, file)
	must(t, err)
	var text strings.Builder
	for line := range strings.Lines(usual) {
		if before, _, ok := strings.Cut(line, " maximum-prefix "); ok {
			line = before + " maximum-prefix 1\n"
		}
		text.WriteString(line)
	}
	must(t, l.ConfigureRouter(t.Context(), router, text.String()))
	return func() { must(t, l.ConfigureRouter(context.Background(), router, usual)) }
}

// answers stops the router and has a program in its place answer each connection with these bytes and nothing else. With
// none it closes it.
func answers(text string) func(*testing.T, *lab.Lab, string) func() {
	return inPlaceOf(func(c net.Conn) {
		_, _ = c.Write([]byte(text))
		if text != "" {
			_, _ = c.Read(make([]byte, 4096))
			time.Sleep(time.Second) // what it wrote is read before it is closed
		}
	})
}

// resets stops the router and has a program in its place take each session, and reset it after a second.
func resets(t *testing.T, l *lab.Lab, router string) func() {
	t.Helper()
	return inPlaceOf(func(c net.Conn) {
		for _, message := range []string{open(65102, 9), message(4, "")} {
			_, _ = c.Write([]byte(message))
		}
		time.Sleep(time.Second)
		_, _ = c.Write([]byte(notification(6, 4)))
		time.Sleep(time.Second)
	})(t, l, router)
}

// inPlaceOf stops a router and has a program in its place handle each connection.
func inPlaceOf(handle func(net.Conn)) func(*testing.T, *lab.Lab, string) func() {
	return func(t *testing.T, l *lab.Lab, router string) func() {
		t.Helper()
		must(t, l.StopRouter(t.Context(), router))
		listener, err := netns.Listen(l.Namespace(router), ":179")
		must(t, err)
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					handle(c)
					_ = c.Close()
				}()
			}
		}()
		return func() {
			must(t, listener.Close())
			must(t, l.StartRouter(context.Background(), router))
		}
	}
}

// message is a message of BGP (RFC 4271, section 4.1).
func message(kind byte, body string) string {
	length := 19 + len(body)
	return strings.Repeat("\xff", 16) + string([]byte{byte(length >> 8), byte(length), kind}) + body
}

// open is an OPEN of a router that knows both families and AS numbers of four octets, with a hold time in seconds.
func open(asn uint16, hold byte) string {
	capabilities := "\x01\x04\x00\x01\x00\x01" + "\x01\x04\x00\x02\x00\x01" + "\x41\x04\x00\x00" + string([]byte{byte(asn >> 8), byte(asn)})
	parameters := "\x02" + string([]byte{byte(len(capabilities))}) + capabilities
	return message(1, string([]byte{4, byte(asn >> 8), byte(asn), 0, hold, 10, 9, 9, 9, byte(len(parameters))})+parameters)
}

// notification is a NOTIFICATION with a code and subcode (RFC 4271, section 4.5).
func notification(code, subcode byte) string { return message(3, string([]byte{code, subcode})) }
