package installation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"plinth.dev/plinth/inventory/source"
)

func TestWhoLeadsByAnotherLeaseAsksBeforeItFollows(t *testing.T) {
	for _, c := range []struct {
		name               string
		lease, runsOn, ask string
		signed, held       bool
		want               turn
	}{
		{"its installation runs on it", "a", "a", "", true, false, acts},
		{"it asked itself, by hand", "a", "a", "a", true, false, acts},
		{"another asks to follow it", "a", "a", "b", true, false, stays},
		{"another asks to follow it, and its program is unknown", "a", "a", "b", false, false, stays},
		{"its program is unknown", "a", "a", "", false, false, signs},
		{"another acts", "b", "a", "", true, true, waits},
		{"another acts, and it asked before", "b", "a", "b", true, true, waits},
		{"nobody acts", "b", "a", "", false, false, asks},
		{"nobody acts, and it asked", "b", "a", "b", false, false, follows},
		{"nobody acts, and somebody else asked", "b", "a", "c", true, false, asks},
	} {
		if got := turnOf(c.lease, c.runsOn, c.ask, c.signed, c.held); got != c.want {
			t.Errorf("%s: turn %d, want %d", c.name, got, c.want)
		}
	}
}

// elections is what an API server has of one installation whose lease is renamed: leases, and the ConfigMap that says which
// counts.
type elections struct {
	common  *v1.ConfigMap
	version int
	leases  map[string]*coordinationv1.Lease
	number  int // of processes that were started
}

func newElections(runsOn string) *elections {
	e := &elections{common: acceptedIn(newer, "7"), version: 1, leases: map[string]*coordinationv1.Lease{}}
	if runsOn != "" {
		e.common.Annotations[source.AnnotationLease] = runsOn
	}
	return e
}

// take has a process of a program hold a lease that nobody holds.
func (e *elections) take(lease, holder, program string) bool {
	l := e.leases[lease]
	if l != nil && *l.Spec.HolderIdentity != "" && *l.Spec.LeaseDurationSeconds > 0 {
		return false
	}
	e.leases[lease] = leaseNamedOf(newer, lease, holder, program)
	e.leases[lease].Spec.LeaseDurationSeconds = new(int32(3600))
	return true
}

// leave has nobody hold a lease: its holder has given it up, or is dead for longer than it lasts.
func (e *elections) leave(lease string, gaveUp bool) {
	if l := e.leases[lease]; gaveUp {
		l.Spec.HolderIdentity = new("")
	} else {
		l.Spec.LeaseDurationSeconds = new(int32(0))
	}
}

// answer is what the API server does.
func (e *elections) answer(a clienttesting.Action) (runtime.Object, error) {
	switch a := a.(type) {
	case clienttesting.UpdateAction:
		cm := a.GetObject().(*v1.ConfigMap)
		if cm.ResourceVersion != strconv.Itoa(e.version) {
			return nil, apierrors.NewConflict(v1.Resource("configmaps"), cm.Name, errors.New("it was written"))
		}
		e.version++
		e.common = cm.DeepCopy()
		return cm, nil
	case clienttesting.GetAction:
		return e.now(), nil
	case clienttesting.ListAction:
		if a.GetResource().Resource == "configmaps" {
			return &v1.ConfigMapList{Items: []v1.ConfigMap{*e.now()}}, nil
		}
		list := &coordinationv1.LeaseList{}
		for _, name := range slices.Sorted(maps.Keys(e.leases)) {
			if wanted, _ := a.GetListRestrictions().Fields.RequiresExactMatch("metadata.name"); wanted == name {
				list.Items = append(list.Items, *e.leases[name].DeepCopy())
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("nobody expected %v", a)
}

func (e *elections) now() *v1.ConfigMap {
	cm := e.common.DeepCopy()
	cm.ResourceVersion = strconv.Itoa(e.version)
	return cm
}

// process is a controller that is elected, asks its guard, and acts; it stands still before each of its requests.
type process struct {
	lease   string
	name    string
	elected bool
	acts    bool
	next    func() (string, bool)
	stop    func()
}

// shipped is the program of Plinth's own.
const shipped = "plinth-cloud-controller-manager"

func (e *elections) start(lease string) *process { return e.startProgram(lease, shipped) }

// startProgram starts a controller that a program runs which may have any name.
func (e *elections) startProgram(lease, program string) *process {
	e.number++
	p := &process{lease: lease, name: fmt.Sprintf("%s_%d", lease, e.number)}
	p.next, p.stop = iter.Pull(func(yield func(string) bool) {
		client := fake.NewClientset()
		client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if !yield(a.GetVerb() + " " + a.GetResource().Resource) {
				return true, nil, context.Canceled
			}
			obj, err := e.answer(a)
			return true, obj, err
		})
		guard := newGuard(client, &strings.Builder{})
		guard.Lease, guard.LeaseIn, guard.Log = lease, newer, slog.New(slog.DiscardHandler)
		if program != shipped {
			guard.Program = program
		}
		for !e.take(lease, p.name, program) {
			if !yield("waits to lead") {
				return
			}
		}
		for p.elected = true; ; {
			if why := guard.look(context.Background()); why == "" {
				p.acts = true
				return
			}
			if !yield("waits to act") {
				return
			}
		}
	})
	return p
}

// end kills a process, or has it hand over.
func (e *elections) end(p *process, handsOver bool) {
	p.stop()
	if p.elected {
		e.leave(p.lease, handsOver)
	}
	p.elected, p.acts = false, false
}

// TestWhateverTheNamesOfTheirLeasesOneLeaderActs starts controllers with leases of several names, which are killed or hand over
// whenever it may be, between any two requests, and whose programs link the provider under names of their own; and once all have
// ended but one, that one acts.
func TestWhateverTheNamesOfTheirLeasesOneLeaderActs(t *testing.T) {
	names := []string{source.DefaultLease, "plinth", "other"}
	rapid.Check(t, func(t *rapid.T) {
		e := newElections(rapid.SampledFrom(append(names, "")).Draw(t, "runs on"))
		var all []*process
		defer func() {
			for _, p := range all {
				p.stop()
			}
		}()
		program := func(t *rapid.T) string {
			return rapid.SampledFrom([]string{shipped, "cloud-controller-manager", "ccm"}).Draw(t, "program")
		}
		pick := func() *process { return rapid.SampledFrom(all).Draw(t, "process") }
		t.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				if len(all) < 5 {
					all = append(all, e.startProgram(rapid.SampledFrom(names).Draw(t, "lease"), program(t)))
				}
			},
			"go on": func(t *rapid.T) {
				if len(all) > 0 {
					p := pick()
					for range rapid.IntRange(1, 4).Draw(t, "requests") {
						does, _ := p.next()
						t.Logf("%s: %s", p.name, does)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(all) > 0 {
					p := pick()
					e.end(p, rapid.Bool().Draw(t, "hands over"))
					all = slices.DeleteFunc(all, func(other *process) bool { return other == p })
				}
			},
			"": func(t *rapid.T) {
				acting := slices.DeleteFunc(slices.Clone(all), func(p *process) bool { return !p.acts })
				if len(acting) > 1 {
					t.Fatalf("%s and %s act", acting[0].name, acting[1].name)
				}
				if len(acting) == 1 && source.LeaseOf(e.common) != acting[0].lease {
					t.Fatalf("%s acts, and the installation runs on %s", acting[0].name, source.LeaseOf(e.common))
				}
			},
		})
		for _, p := range all {
			e.end(p, true)
		}
		last := e.startProgram(rapid.SampledFrom(names).Draw(t, "the last one"), program(t))
		defer last.stop()
		for range 99 {
			last.next()
		}
		if !last.acts {
			t.Fatalf("%s is alone, and does not act", last.name)
		}
	})
}

// TestOfTwoThatComeTogetherOneActs has a controller stand still after each number of requests, and the other one after each
// number of its own.
func TestOfTwoThatComeTogetherOneActs(t *testing.T) {
	const most = 16 // requests; all that one makes until it acts or has to wait are fewer
	goOn := func(p *process, requests int) {
		for range requests {
			p.next()
		}
	}
	for _, c := range []struct{ runsOn, asked, one, other, program string }{
		{"a", "", "b", "a", shipped}, {"a", "b", "b", "a", shipped}, {"a", "c", "b", "a", shipped}, {"a", "", "b", "c", shipped}, {"a", "b", "b", "c", shipped}, {"a", "c", "b", "c", shipped},
		{"a", "", "b", "a", "ccm"}, {"a", "b", "b", "a", "ccm"}, {"a", "", "a", "b", "ccm"}, {"a", "b", "a", "b", "ccm"}, {"a", "", "b", "c", "ccm"},
	} {
		for first := range most {
			for second := range most {
				e := newElections(c.runsOn)
				if c.asked != "" {
					e.common.Annotations[source.AnnotationNextLease] = c.asked
				}
				one, other := e.startProgram(c.one, c.program), e.start(c.other)
				goOn(one, first)
				goOn(other, second)
				goOn(one, 3*most)
				goOn(other, 3*most)
				goOn(one, 3*most)
				if one.acts == other.acts {
					t.Errorf("%+v, after %d and %d requests: both act, or none: %v", c, first, second, one.acts)
				}
				one.stop()
				other.stop()
			}
		}
	}
}

// TestALeaseIsRenamedThereAndBack is an upgrade with another name of the lease, and one back: the new controller waits for the
// old one and says so, acts once that one has ended, and is killed between its word and its first act.
func TestALeaseIsRenamedThereAndBack(t *testing.T) {
	for _, c := range []struct{ from, to string }{{source.DefaultLease, "plinth"}, {"plinth", source.DefaultLease}} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			e := newElections("")
			if c.from != source.DefaultLease {
				e = newElections(c.from)
			}
			goOn := func(p *process) {
				for range 99 {
					p.next()
				}
			}
			before := e.start(c.from)
			if goOn(before); !before.acts || e.version != 1 {
				t.Fatalf("that of before acts: %v; version %d of what is stored", before.acts, e.version)
			}
			after := e.start(c.to)
			if goOn(after); after.acts || !after.elected || e.version != 1 {
				t.Fatalf("two act, or it wrote something: %+v, version %d", after, e.version)
			}
			e.end(before, true)
			for does := ""; source.LeaseOf(e.common) != c.to; {
				if does, _ = after.next(); after.acts {
					t.Fatalf("it acts before the installation runs on its lease (%s)", does)
				}
			}
			e.end(after, false) // killed after it wrote that, before it acts
			back := e.start(c.from)
			again := e.start(c.to)
			if goOn(again); !again.acts {
				t.Fatal("the next one does not act")
			}
			if goOn(back); back.acts {
				t.Fatal("one of before acts as well")
			}
			again.stop()
			back.stop()
		})
	}
}

// TestAGuardSaysForWhomItWaits tells of leases of other names in its own namespace.
func TestAGuardSaysForWhomItWaits(t *testing.T) {
	runsOn := acceptedIn(newer, "7")
	runsOn.Annotations[source.AnnotationLease], runsOn.Annotations[source.AnnotationProgram] = "before", "ccm"
	held := func(holder, program string) *coordinationv1.Lease {
		l := leaseOf(newer, holder, 3600)
		l.Name = "before"
		if program != "" {
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: program, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:holderIdentity":{}}}`)}}
		}
		return l
	}
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no rule allows it"))
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease // that it ran on; nil: there is none
		err   error
		want  []string // parts of why it may not act; none: it may
	}{
		"it is gone":                     {nil, nil, nil},
		"nobody has it":                  {held("", "plinth-cloud-controller-manager"), nil, nil},
		"another one of Plinth's has it": {held("nuc1_1", "plinth-cloud-controller-manager"), nil, []string{"nuc1_1 holds lease before", "by lease " + source.DefaultLease, "once that one has ended"}},
		"another program has it":         {held("nuc1_1", "k3s"), nil, nil},
		"a program that led has it":      {held("nuc1_1", "ccm"), nil, []string{"nuc1_1 holds lease before", "once that one has ended"}},
		"one that is called as this has": {held("nuc1_1", "own"), nil, []string{"nuc1_1 holds lease before", "once that one has ended"}},
		"it is parked":                   {held(movedPrefix+older, "plinth"), nil, []string{"was moved to namespace kube-system"}},
		"it may not be read":             {held("nuc1_1", ""), forbidden, []string{"lease before, which may not be read", "ClusterRole of the controller", "annotate configmap plinth-accepted plinth.dev/lease-"}},
		"there is no answer":             {held("nuc1_1", ""), errors.New("timeout"), []string{"timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{runsOn, leaseOf(newer, "me", 15)}
			if c.lease != nil {
				objects = append(objects, c.lease)
			}
			client := cluster(objects...)
			client.PrependReactor("list", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
				wanted, _ := a.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
				return wanted == "before" && c.err != nil, nil, c.err
			})
			guard := newGuard(client, &strings.Builder{})
			guard.LeaseIn, guard.Program = newer, "own"
			got := guard.look(t.Context())
			if got != "" && len(c.want) == 0 {
				t.Errorf("it may not act: %s", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in %q", part, got)
				}
			}
		})
	}
}
