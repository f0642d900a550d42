package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/test/apiserver"
)

const (
	startWithin  = 3 * time.Minute  // all watchers have been told all
	renewals     = 4                // that are measured: one is within what chance has of the server's time
	renewWindow  = 10 * time.Second // all watches that ended go on
	watchesLeast = 5 * time.Minute  // client-go asks for five to ten minutes, at random
	watchesLast  = watchesLeast * 3 / 2
	renewedBytes = 20e3             // of a watch that goes on: an agent asks for one object, to know the store for the one it was
	editWithin   = time.Minute      // an edit is in force everywhere
	editWindow   = 45 * time.Second // for as long the server is measured from an edit on
	idleWindow   = time.Minute      // for as long the server is measured while nobody does anything
	quietAfter   = 10 * time.Second // what follows a start or a rollout is over
	reportEvery  = 5 * time.Minute  // of a kubelet or an agent, while nothing changes
	podsOfSecond = 50               // that are replaced
	podStep      = time.Second      // from one change of a pod to its next
)

// turn is what was measured in one turn of a contender. Of nobody start is a time in which nothing happens.
type turn struct {
	start, renew, rest, rollout, edit cost    // of nobody renew is start
	beats                             cost    // of nobody: rest with the reports of agents besides
	synced, accepted, inForce         float64 // seconds; zero: nobody was waited for
	atRest, peak                      float64 // memory of the API server, in MiB
}

// turn measures a contender from its start on, in all phases.
func (s *stand) turn(c contender) (t turn) {
	s.b.Helper()
	s.atRest()
	var p *watchers
	kubelets, agents := s.kubeletReports, s.agentReports(c)
	if c == nobody {
		t.start = s.measure(nil, func() { time.Sleep(idleWindow) })
		t.renew = t.start
		t.beats = s.measure(nil, func() { s.profiled("reports", func() { s.report(kubelets, agents) }) })
	} else {
		p = s.startWatchers(c)
		defer p.end()
		s.measureStart(p, &t)
		s.measureRenewal(p, &t)
	}
	writers := []func(context.Context, int) error{kubelets}
	if c.name == agent {
		writers = append(writers, agents)
	}
	t.rest = s.measure(p, func() { s.profiled(c.name, func() { s.report(writers...) }) })
	t.atRest, _ = s.memory()
	t.rollout = s.measure(p, s.rollOut)
	t.edit = s.measure(p, func() { s.editAll(c, p, &t) })
	return t
}

// measure is the cost while something is done.
func (s *stand) measure(p *watchers, do func()) cost {
	s.b.Helper()
	before := s.begin(p)
	do()
	return s.since(before, p)
}

// measureStart has all watchers start at once.
func (s *stand) measureStart(p *watchers, t *turn) {
	s.b.Helper()
	t.start = s.measure(p, func() {
		s.resetPeak()
		begun := time.Now()
		p.tell("start")
		t.synced = p.until(startWithin, "ready", *watched).Sub(begun).Seconds()
		time.Sleep(quietAfter)
	})
	_, t.peak = s.memory()
}

// measureRenewal has each watch end and go on some times, as it does every five to ten minutes. Only the first watch of a
// kube-proxy is compressed: what is measured after this is of the others.
func (s *stand) measureRenewal(p *watchers, t *turn) {
	s.b.Helper()
	var ended []float64
	watches := s.watches()
	t.renew = s.measure(p, func() {
		for range renewals {
			begun := time.Now()
			ended = append(ended, p.renew())
			time.Sleep(time.Until(begun.Add(renewWindow)))
		}
	})
	all := renewals * ended[0]
	if again := s.watches(); ended[0] < float64(*watched) || slices.Min(ended) < ended[0] || t.renew.watches < all || again < watches {
		s.b.Fatalf("each %s watches ended, %v, %v had begun, and %v of %v are there; the watchers' log ends\n%s", renewWindow, ended, t.renew.watches, again, watches, p.tail())
	}
	if t.renew.slices > 0 || t.renew.bytes > all*renewedBytes {
		s.b.Fatalf("watches that ended did not go on where they were: %v events of EndpointSlices and %v bytes came again", t.renew.slices, t.renew.bytes)
	}
}

// report has writers write once for each Node in five minutes, at other times each, for as long as a rest is measured.
func (s *stand) report(writers ...func(ctx context.Context, node int) error) {
	s.b.Helper()
	begun, pause := time.Now(), reportEvery/time.Duration(*nodes*len(writers))
	due := int(*resting / pause)
	s.each(due, func(ctx context.Context, i int) error {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * pause)))
		by := i % len(writers)
		return writers[by](ctx, (s.reported+i/len(writers)+by**nodes/len(writers))%*nodes)
	})
	s.reported += due / len(writers)
	if took := time.Since(begun); took > *resting+*resting/10 {
		s.b.Fatalf("%d reports in %s took %s: the API server is too slow for them", due, *resting, took)
	}
	time.Sleep(time.Until(begun.Add(*resting)))
}

// kubeletReports writes the conditions of a Node as its kubelet does.
func (s *stand) kubeletReports(ctx context.Context, node int) error {
	return s.patch(ctx, node, kubeletConditions())
}

// agentReports writes the condition of a Node as its agent does, but where the contender has an agent for it.
func (s *stand) agentReports(c contender) func(ctx context.Context, node int) error {
	var own []string
	if c.name == agent {
		own = watchedNodes()
	}
	return func(ctx context.Context, node int) error {
		if slices.Contains(own, apiserver.MachineName(node)) {
			return nil
		}
		return s.patch(ctx, node, []corev1.NodeCondition{{Type: lb.FabricReady, Status: corev1.ConditionTrue, Reason: "AsPlanned", LastHeartbeatTime: metav1.Now()}})
	}
}

func (s *stand) patch(ctx context.Context, node int, conditions []corev1.NodeCondition) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	_, err = s.fast.CoreV1().Nodes().Patch(ctx, apiserver.MachineName(node), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// rolloutTime is how long a rollout takes.
func rolloutTime() time.Duration {
	return time.Duration(*pods)*time.Second/podsOfSecond + 2*podStep
}

// rollOut replaces pods, each of another Service.
func (s *stand) rollOut() {
	s.b.Helper()
	begun := time.Now()
	var all sync.WaitGroup
	for pod := range *pods {
		time.Sleep(time.Until(begun.Add(time.Duration(pod) * time.Second / podsOfSecond)))
		all.Go(func() { s.replace(pod) })
	}
	all.Wait()
	if s.b.Failed() {
		s.b.FailNow()
	}
	if took := time.Since(begun); took > rolloutTime()+quietAfter/2 {
		s.b.Fatalf("the changes of %d pods took %s, want %s: the API server is too slow for them", *pods, took, rolloutTime())
	}
	time.Sleep(time.Until(begun.Add(rolloutTime() + quietAfter)))
}

// replace replaces a pod as a Deployment does: the old one terminates, the new one takes its place, and is ready.
func (s *stand) replace(pod int) {
	i := pod * *services / *pods
	for step := range 3 {
		if step > 0 {
			time.Sleep(podStep)
		}
		next := s.slices[i].DeepCopy()
		switch endpoint := &next.Endpoints[0]; step {
		case 0:
			*endpoint.Conditions.Ready, *endpoint.Conditions.Terminating = false, true
		case 1:
			*endpoint = endpointObject(*endpoints+int(s.replaced.Add(1))%*endpoints, false)
		case 2:
			*endpoint.Conditions.Ready, *endpoint.Conditions.Serving = true, true
		}
		stored, err := s.fast.DiscoveryV1().EndpointSlices(namespace).Update(s.b.Context(), next, metav1.UpdateOptions{})
		if err != nil {
			s.b.Errorf("%s: %v", next.Name, err)
			return
		}
		s.slices[i] = stored
	}
}

// editAll edits the inventory in a way that concerns every machine.
func (s *stand) editAll(c contender, p *watchers, t *turn) {
	s.b.Helper()
	s.edit++
	begun := time.Now()
	s.EditInventory(inventoryOf(s.edit), nil)
	s.AwaitStatus("generation", strconv.Itoa(s.edit))
	t.accepted = time.Since(begun).Seconds()
	if c.name == agent {
		t.inForce = p.until(editWithin, "mark "+mark(s.edit), *watched).Sub(begun).Seconds()
	}
	if took := time.Since(begun); took > editWindow {
		s.b.Fatalf("an edit took %s, and is measured for %s: there are too many watchers for this machine", took, editWindow)
	}
	time.Sleep(time.Until(begun.Add(editWindow)))
}
