package traffic

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/e2e/story"
	"plinth.dev/plinth/test/lab"
)

// passwordTold is how soon everybody knows that a new password did not bring up a session: the trial, and the half minute
// for which a machine's condition keeps its words.
const passwordTold = 45 * time.Second

// TestASecretIsRotated gives the Secret of all sessions a value that no router has, as by a mistake: one machine of each
// rack tries it and says so, and no other session is touched. Then it is put back, and then the password is rotated as the
// guide says, the Secret first. A client of a Service whose traffic stays local loses nothing but what routers move.
func TestASecretIsRotated(t *testing.T) {
	l := story.Shared(t)
	story.Web(t, l, "secret", 4)
	local := lab.LoadBalancer("secret-local", "secret")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	vips := story.Expose(t, l, local)
	t.Cleanup(func() { must(t, l.ForgetPassword(context.Background())) })
	must(t, l.SetPassword(t.Context(), "first"))
	guarded := story.Edited(t, lab.Inventory(l.Topology), "    holdTime: 3s\n", "    holdTime: 3s\n    passwordFrom: {secret: "+lab.PasswordSecret+", key: "+lab.PasswordKey+"}\n")
	guarded = story.Edited(t, guarded, "spec:\n", "spec:\n  safety: {sessionTrial: 6s}\n")
	story.InForce(t, l, guarded)
	sessionsUp(t, l)
	moves := story.RouterMoves(t, l, vips)
	probes := map[netip.Addr]*lab.Prober{}
	for _, vip := range vips {
		must(t, l.WaitServed(t.Context(), vip))
		probes[vip] = story.Probing(t, l, vip, requestRate)
	}

	tries := map[string]string{} // by rack
	before := map[string][]lab.Session{}
	for _, rack := range l.Topology.Racks {
		tries[rack.Name] = rack.Machines[0].Name
		for _, m := range rack.Machines[1:] {
			sessions, err := l.Sessions(t.Context(), m.Name)
			must(t, err)
			before[m.Name] = sessions
		}
	}
	begun := time.Now()
	setSecret(t, l, "of no router")
	must(t, lab.Within(t.Context(), passwordTold, func(ctx context.Context) (err error) {
		for _, m := range tries {
			err = errors.Join(err, story.InStatus(ctx, l, m, "PasswordNotTaken"))
		}
		return err
	}))
	t.Logf("a password of no router is told of after %v", time.Since(begun).Round(time.Second))
	sessionsUp(t, l) // the former password is in use again
	for m, sessions := range before {
		now, err := l.Sessions(t.Context(), m)
		must(t, err)
		if !slices.EqualFunc(sessions, now, func(a, b lab.Session) bool { return a.Address == b.Address && a.Since.Equal(b.Since) }) {
			t.Errorf("sessions of %s, which was to try nothing, were %+v and are %+v", m, sessions, now)
		}
	}
	setSecret(t, l, "first")
	must(t, lab.Within(t.Context(), passwordTold, func(ctx context.Context) error { return story.AllWell(ctx, l) }))

	must(t, l.SetPassword(t.Context(), "second"))
	story.PauseFor(t, 2*time.Second) // one machine of each rack tries it meanwhile
	begun = time.Now()
	must(t, l.ConfigureRouters(t.Context(), guarded))
	sessionsUp(t, l)
	t.Logf("all sessions are up %v after the routers had the second password, of which loading their configuration is a part", time.Since(begun).Round(time.Second))
	must(t, lab.Within(t.Context(), passwordTold, func(ctx context.Context) error { return story.AllWell(ctx, l) }))

	story.NoneLostButByMoves(t, probes, moves())
}

// setSecret writes a password for the agents alone.
func setSecret(t *testing.T, l *lab.Lab, password string) {
	t.Helper()
	secrets := l.Kube.CoreV1().Secrets(lab.PlinthNamespace)
	secret, err := secrets.Get(t.Context(), lab.PasswordSecret, metav1.GetOptions{})
	must(t, err)
	secret.Data = map[string][]byte{lab.PasswordKey: []byte(password)}
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	must(t, err)
}
