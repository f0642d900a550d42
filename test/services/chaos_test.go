//go:build chaos

package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plinth.dev/plinth/test/apiserver"
)

const (
	crowd     = 200                   // Services
	changes   = 700                   // of them
	chaosRate = 0.2                   // of all requests of the controller managers fail
	pace      = 30 * time.Millisecond // from one thing that happens to the next
)

// The second pool gives what is asked for alone, so that nobody else has it.
const chaosPools = `
    - {name: public, addresses: [192.0.2.0/24, 198.51.100.0/24, "2001:db8:2::/112"]}
    - {name: asked, autoAssign: false, addresses: [203.0.113.0/25, "2001:db8:3::/112"]}`

// foreignAddresses are of the pool, and another program holds them.
var foreignAddresses = []string{"192.0.2.1", "192.0.2.77", "2001:db8:2::1"}

// Services of all kinds come, change and go while controller managers are killed, terminated
// and stopped for a while, and while requests fail. Once that ends all Services have what they
// ask for, and once all are deleted nothing is left of them.
func TestChangesOfTheLeaderInChaosDoubleMoveAndLeakNothing(t *testing.T) {
	testChaos(t, func(*chaos) {})
}

// Two controller managers are at work at once, as they must never be: of these, too, one
// gives nothing away that the other has given. A Service may move that both serve in the same
// moment, and its status may show for a moment what the other has just given back.
func TestTwoLeadersInChaosDoubleAndLeakNothing(t *testing.T) {
	testChaos(t, (*chaos).letTwoLead, "moved", "not held")
}

func testChaos(t *testing.T, disorder func(*chaos), notPromised ...string) {
	apiserver.Draw(t, func(t *testing.T, seed uint64) { chaosOf(t, seed, disorder, notPromised...) })
}

func chaosOf(t *testing.T, seed uint64, disorder func(*chaos), notPromised ...string) {
	c := newChaos(t, seed)
	r := c.record()
	defer c.judged(r, notPromised...) // whether or not the story comes to its end
	c.deploy(2)

	c.faults.Fail(chaosRate)
	disorder(c)
	for len(c.services) < crowd {
		c.create()
		c.disturb()
	}
	for range changes {
		c.churn()
		c.disturb()
		time.Sleep(pace)
	}
	c.calm()
	c.allServed(r)

	c.faults.Fail(chaosRate)
	disorder(c)
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		c.delete(name)
		c.disturb()
	}
	c.letGo()
	for range changes / 5 { // while the controller managers let them go
		c.disturb()
		time.Sleep(pace)
	}
	c.calm()
	c.nothingLeft()
	c.foreignUntouched()
	seen := c.seen(r)
	h := replay(seen)
	c.restsAreWrittenDown(h, seen)
	c.wasChaos(r, h)
}

// wasChaos tells how much happened, and fails the test if it was too little to say anything.
func (c *chaos) wasChaos(r *recorder, h *history) {
	c.t.Helper()
	failed := c.faults.Counts()
	c.t.Logf("%d changes of %d Services and %d addresses; disturbed: %v; requests failed: %v", len(r.events), len(h.reported), len(h.owners), c.did, failed)
	if len(failed) < c.faults.Kinds() || c.disturbed < 2*len(disturbances) || len(h.owners) < crowd {
		c.t.Error("that was too little")
	}
}

// allServed waits until each Service has what it asks for and holds it, and nothing else is
// held.
func (c *chaos) allServed(r *recorder) {
	c.t.Helper()
	var asked []string // by those that lack it
	defer func() {
		if c.t.Failed() {
			slices.Sort(asked)
			for _, ip := range slices.Compact(asked) {
				c.t.Logf("%s:\n%s", ip, concerning(c.seen(r), ip))
			}
		}
	}()
	c.Eventually(40*time.Second, "all Services have what they ask for", func(ctx context.Context) error {
		c.tendAll()
		list, err1 := c.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		held, err2 := c.heldBy(ctx)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		var wrong []error
		asked = nil
		for i := range list.Items {
			svc := &list.Items[i]
			if err := unserved(svc); err != nil {
				asked = append(asked, strings.Split(svc.Annotations["plinth.dev/ips"], ",")...)
				wrong = append(wrong, fmt.Errorf("%s: %w; %v", nameOf(svc), err, svc.Status.Conditions))
			}
			for _, ip := range shown(svc) {
				if !slices.Contains(held[ip], nameOf(svc)) {
					wrong = append(wrong, fmt.Errorf("%s shows %s, which %v hold", nameOf(svc), ip, held[ip]))
				}
				held[ip] = slices.DeleteFunc(held[ip], func(name string) bool { return name == nameOf(svc) })
			}
		}
		for ip, names := range held {
			if len(names) > 0 {
				wrong = append(wrong, fmt.Errorf("%v hold %s, and do not show it", names, ip))
			}
		}
		return abridged(wrong)
	})
}

// heldBy are the Services that hold an address of Plinth's.
func (c *chaos) heldBy(ctx context.Context) (map[string][]string, error) {
	list, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=plinth.dev"})
	if err != nil {
		return nil, err
	}
	held := map[string][]string{}
	for i := range list.Items {
		held[list.Items[i].Name] = holders(&list.Items[i])
	}
	return held, nil
}

// abridged is as much of a long list as somebody reads.
func abridged(wrong []error) error {
	if len(wrong) > 5 {
		wrong = append(wrong[:5:5], fmt.Errorf("and %d more", len(wrong)-5))
	}
	return errors.Join(wrong...)
}

// nothingLeft waits until no Service is there any more, and nothing is held.
func (c *chaos) nothingLeft() {
	c.t.Helper()
	c.Eventually(40*time.Second, "nothing is left", func(ctx context.Context) error {
		c.tendAll()
		list, err1 := c.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		held, err2 := c.heldBy(ctx)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		var wrong []error
		for i := range list.Items {
			if svc := &list.Items[i]; svc.Name != "kubernetes" {
				wrong = append(wrong, fmt.Errorf("%s is there, deleted at %v, finalizers %v, shows %v", nameOf(svc), svc.DeletionTimestamp, svc.Finalizers, shown(svc)))
			}
		}
		for _, ip := range slices.Sorted(maps.Keys(held)) {
			wrong = append(wrong, fmt.Errorf("%s is held by %v", ip, held[ip]))
		}
		return abridged(wrong)
	})
}

// foreignUntouched fails the test if the objects of another program have changed.
func (c *chaos) foreignUntouched() {
	c.t.Helper()
	for _, ip := range foreignAddresses {
		obj, err := c.Client.NetworkingV1().IPAddresses().Get(c.t.Context(), ip, metav1.GetOptions{})
		if err != nil {
			c.t.Error(err)
		} else if len(obj.Annotations) > 0 || obj.Labels[networkingv1.LabelManagedBy] != "example.com" {
			c.t.Errorf("the object of another program has changed: %v", obj)
		}
	}
}

// restsAreWrittenDown waits until ConfigMap plinth-released has every address that a Service
// has held, of whoever held it last: all were given back less than ten minutes ago.
func (c *chaos) restsAreWrittenDown(h *history, seen []event) {
	c.t.Helper()
	c.Eventually(10*time.Second, "what was given back rests", func(ctx context.Context) error {
		c.tendAll()
		m, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(ctx, "plinth-released", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var all []struct {
			Address, Owner string
			Until          time.Time
		}
		if err := json.Unmarshal([]byte(m.Data["released.json"]), &all); err != nil {
			return err
		}
		owners := map[string]string{}
		for _, r := range all {
			owners[r.Address] = r.Owner
			if left := time.Until(r.Until); left <= 0 || left > 10*time.Minute {
				return fmt.Errorf("%s rests for %v", r.Address, left)
			}
		}
		var wrong []error
		for ip, owner := range h.owners {
			if owners[ip] != owner {
				wrong = append(wrong, fmt.Errorf("%s was held by %s last, and rests for %q:\n%s", ip, owner, owners[ip], concerning(seen, ip)))
			}
		}
		return abridged(wrong)
	})
}

// concerning prints the events that tell of an address.
func concerning(seen []event, ip string) string {
	var lines []string
	for _, e := range inOrder(seen) {
		if e.concerns([]string{ip}) || e.service != nil && strings.Contains(askOf(e.service), ip) {
			lines = append(lines, e.String())
		}
	}
	return strings.Join(lines, "\n")
}
