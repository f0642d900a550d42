package advertise

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plinth.dev/plinth/lb"
	"plinth.dev/plinth/sorted"
)

const testBound = 10 * time.Second

// gated is a machine with a gate: it plans again and again, as the agent does.
type gated struct {
	gate    *Gate
	view    View
	planner Planner
	now     time.Time
	offers  sorted.List[Offer] // as they are
	passed  sorted.List[Offer]
	plan    Plan
}

func newGated(t testing.TB) *gated {
	return &gated{gate: NewGate(testBound), view: view(t, load(t, datacenter), "w1"), now: time.Unix(1_000_000, 0)}
}

// replan makes a pass at the present moment.
func (g *gated) replan() {
	g.gate.Expire(g.now)
	g.passed = g.gate.Apply(g.offers, g.now)
	g.view.Offers = g.passed
	g.plan = g.planner.Plan(g.view)
	g.gate.Observe(g.plan.Refusals, g.now)
}

func (g *gated) put(o ...Offer) { g.offers = g.offers.Edit(nil, o); g.replan() }

func (g *gated) answer(e Evidence) {
	var all []Answer
	for _, q := range g.gate.Questions() {
		all = append(all, Answer{q, e})
	}
	g.gate.Answer(all, g.now)
	g.replan()
}

func (g *gated) wait(d time.Duration) { g.now = g.now.Add(d); g.replan() }

// announces says how a VIP is announced: "", "worse" or "yes".
func (g *gated) announces(vip netip.Addr) string {
	for _, s := range g.plan.Sessions {
		if s.Advertisements.Has(Advertisement{Prefix: hostPrefix(vip)}) {
			if g.plan.Demotions.Has(Demotion{Prefix: hostPrefix(vip)}) {
				return "worse"
			}
			return "yes"
		}
	}
	return ""
}

func (g *gated) expect(t *testing.T, when string, vip netip.Addr, want string, questions int) {
	t.Helper()
	if got, asks := g.announces(vip), len(g.gate.Questions()); got != want || asks != questions {
		t.Fatalf("%s: announced %q with %d questions, want %q with %d; refusals %v", when, got, asks, want, questions, g.plan.Refusals)
	}
}

var (
	gatedVIP  = netip.MustParseAddr("203.0.113.10")
	gatedVIP6 = netip.MustParseAddr("2001:db8:113::10")
	web       = lb.ServiceKey{Namespace: "prod", Name: "web"}
)

func cluster(vip netip.Addr, endpoints int) Offer {
	return Offer{Service: web, VIP: vip, Endpoints: Endpoints{Any: endpoints}, Frontend: Frontend{Shown: true}}
}

func local(e Endpoint) Endpoint { e.Local = true; return e }

func localOffer(all ...Endpoint) Offer {
	return Offer{Service: web, VIP: gatedVIP, LocalTraffic: true, Endpoints: Count(all), Frontend: Frontend{Shown: true}}
}

func TestAVIPIsAnnouncedOnceItsRulesAreSeenAndNeverGatedAgain(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 1))
	g.expect(t, "new", gatedVIP, "", 1)
	g.answer(Absent)
	g.expect(t, "asked", gatedVIP, "", 1)
	g.answer(Present)
	g.expect(t, "seen", gatedVIP, "yes", 0)
	g.put(cluster(gatedVIP, 2))
	g.expect(t, "one endpoint more", gatedVIP, "yes", 0)
	g.put(cluster(gatedVIP, 0))
	g.expect(t, "no endpoint", gatedVIP, "", 0)
	g.put(cluster(gatedVIP, 1))
	g.expect(t, "an endpoint again", gatedVIP, "", 1)
}

func TestTheBoundLetsAVIPThroughAndItIsAskedOn(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 1))
	if next := g.gate.Next(g.now); next != testBound {
		t.Errorf("the next pass is due in %v", next)
	}
	g.wait(testBound - time.Millisecond)
	g.expect(t, "before the bound", gatedVIP, "", 1)
	g.wait(time.Millisecond)
	g.expect(t, "at the bound", gatedVIP, "yes", 1)
	if q := g.gate.Questions()[0]; !q.Overdue {
		t.Errorf("the question does not say that it is overdue: %v", q)
	}
	g.answer(Present)
	g.expect(t, "seen at last", gatedVIP, "yes", 0)
}

// of has another proxy serve an offer.
func (o Offer) of(p lb.Proxy) Offer { o.Frontend.Proxy = p; return o }

func TestNobodyIsAskedAboutAServiceThatKubeProxyLeavesAlone(t *testing.T) {
	for _, p := range []lb.Proxy{"other", lb.UnnamedProxy, lb.NoProxy} {
		g := newGated(t)
		g.put(cluster(gatedVIP, 1).of(p))
		g.expect(t, "new", gatedVIP, "yes", 0)
		g.wait(2 * testBound)
		g.expect(t, "long after", gatedVIP, "yes", 0)
		if looked := g.gate.Passing(); len(looked) > 0 {
			t.Errorf("%s: its rules are looked for: %v", p, looked)
		}
		g.put(cluster(gatedVIP, 1))
		g.expect(t, "kube-proxy's again", gatedVIP, "", 1)
		g.wait(testBound)
		g.expect(t, "at the bound", gatedVIP, "yes", 1)
		g.put(cluster(gatedVIP, 1).of(p))
		g.expect(t, "another's while it is overdue", gatedVIP, "yes", 0)
	}
}

func TestRulesThatAreGoneAreOverOnceAnotherProxyServes(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 2))
	g.answer(Present)
	g.gone()
	g.expect(t, "gone", gatedVIP, "", 1)
	g.put(cluster(gatedVIP, 2).of("other"))
	g.expect(t, "another proxy's", gatedVIP, "yes", 0)
}

// gone has the rules of everything that passes vanish.
func (g *gated) gone() {
	g.gate.Lose(g.gate.Passing(), g.now)
	g.replan()
}

func TestAVIPWhoseRulesAreGoneIsLeftToOtherMachinesUntilTheyAreBack(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 2))
	g.answer(Present)
	g.gone()
	g.expect(t, "gone", gatedVIP, "", 1)
	if no := (Refusal{Service: web, VIP: gatedVIP, Reason: lb.ProxyRulesLost}); !g.plan.Refusals.Has(no) {
		t.Errorf("refusals %v", g.plan.Refusals)
	}
	g.wait(2 * testBound)
	g.expect(t, "gone for long", gatedVIP, "", 1)
	g.answer(Absent)
	g.expect(t, "looked for", gatedVIP, "", 1)
	g.answer(Present)
	g.expect(t, "back", gatedVIP, "yes", 0)
	if n := len(g.gate.Passing()); n != 1 {
		t.Errorf("%d pass", n)
	}
}

// One endpoint, which is here: routers would drop what the machine rejects at least.
func TestAVIPThatNobodyElseCanServeStaysAnnouncedWithoutItsRules(t *testing.T) {
	g := newGated(t)
	g.put(localOffer(local(Endpoint{Ready: true, Serving: true})))
	g.answer(Present)
	g.gone()
	g.expect(t, "gone", gatedVIP, "yes", 1)
	if q := g.gate.Questions()[0]; !q.Lost {
		t.Errorf("the question does not say that the rules are gone: %v", q)
	}
	g.put(localOffer(local(Endpoint{Ready: true, Serving: true}), Endpoint{Ready: true, Serving: true}))
	g.expect(t, "an endpoint elsewhere", gatedVIP, "", 1)
	g.answer(Present)
	g.expect(t, "back", gatedVIP, "yes", 0)
}

func TestRulesThatAreGoneForWhatHasChangedCountForNothing(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 2))
	g.answer(Present)
	was := g.gate.Passing()
	other := cluster(gatedVIP, 2)
	other.Frontend.Ports = "81/TCP"
	g.put(other)
	g.gate.Lose(was, g.now)
	g.replan()
	g.expect(t, "other ports", gatedVIP, "yes", 0)
	was = g.gate.Passing()
	g.put(cluster(gatedVIP, 0))
	g.gate.Lose(was, g.now)
	g.put(cluster(gatedVIP, 2))
	g.expect(t, "new endpoints wait as usual", gatedVIP, "", 1)
	g.wait(testBound)
	g.expect(t, "at the bound", gatedVIP, "yes", 1)
}

// kube-proxy may hear of a new VIP sooner than the agent, and have its rules by then.
func TestRulesThatWereSeenBeforeTheStatusAreSeen(t *testing.T) {
	g := newGated(t)
	fresh := cluster(gatedVIP, 2)
	fresh.Frontend.Shown = false
	g.put(fresh)
	g.answer(Present)
	g.put(cluster(gatedVIP, 2))
	if now := g.gate.Passing(); len(now) != 1 || !now[0].Seen {
		t.Errorf("passing %v", now)
	}
}

// A status that somebody else has written makes kube-proxy drop the rules everywhere. They have to be seen again before they
// can be gone.
func TestAVIPThatTheStatusDoesNotShowIsNotLookedFor(t *testing.T) {
	g := newGated(t)
	shown := cluster(gatedVIP, 2)
	g.put(shown)
	g.answer(Present)
	was := g.gate.Passing()
	if len(was) != 1 || !was[0].Seen {
		t.Fatalf("passing %v", was)
	}
	overwritten := shown
	overwritten.Frontend.Shown = false
	g.put(overwritten)
	if now := g.gate.Passing(); len(now) != 0 {
		t.Errorf("passing %v", now)
	}
	g.gate.Lose(was, g.now)
	g.replan()
	g.expect(t, "overwritten", gatedVIP, "yes", 0)
	g.put(shown)
	if now := g.gate.Passing(); len(now) != 1 || now[0].Seen || now[0] == was[0] {
		t.Errorf("passing %v", now)
	}
	g.gate.Lose(was, g.now)
	g.replan()
	g.expect(t, "as it was again", gatedVIP, "yes", 0)
}

// The rules may go while no agent runs.
func TestTheNextProcessLooksForRulesThatTheOneBeforeHasSeen(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 2))
	g.answer(Unknown)
	if now := g.gate.Passing(); len(now) != 1 || now[0].Seen {
		t.Fatalf("passing %v", now)
	}
	g.gate.See(g.gate.Passing(), g.now)
	next := newGated(t)
	next.gate.Adopt(g.gate.passed)
	next.put(cluster(gatedVIP, 2))
	if now := next.gate.Passing(); len(now) != 1 || !now[0].Seen {
		t.Errorf("passing %v", now)
	}
}

func TestWhereNobodyCanBeAskedTheGateIsOpen(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 1))
	g.answer(Unknown)
	g.expect(t, "nobody to ask", gatedVIP, "yes", 0)
}

func TestAFamilyThatIsLateIsGatedAlone(t *testing.T) {
	g := newGated(t)
	g.put(cluster(gatedVIP, 1), cluster(gatedVIP6, 1))
	q := g.gate.Questions()
	g.gate.Answer([]Answer{{q[0], Present}, {q[1], Absent}}, g.now)
	g.replan()
	if g.announces(gatedVIP) != "yes" || g.announces(gatedVIP6) != "" {
		t.Errorf("announced: %q and %q", g.announces(gatedVIP), g.announces(gatedVIP6))
	}
}

func TestWhatTheProcessBeforeAnnouncedIsAnnouncedWithoutAQuestion(t *testing.T) {
	g := newGated(t)
	held, gone := cluster(gatedVIP6, 1), cluster(netip.MustParseAddr("203.0.113.11"), 0)
	held.RulesPending = true
	g.gate.Adopt(sorted.Of(cluster(gatedVIP, 1), held, gone))
	held.RulesPending, gone.Endpoints.Any = false, 1
	g.put(cluster(gatedVIP, 1), held, gone)
	g.expect(t, "was announced", gatedVIP, "yes", 2)
	g.expect(t, "was held back", gatedVIP6, "", 2)
	g.expect(t, "had no endpoint", gone.VIP, "", 2)
}

func TestTheClockRunsOnlyWhileTheMachineWouldAnnounce(t *testing.T) {
	g := newGated(t)
	g.view.ProxyHealthy = false
	g.put(cluster(gatedVIP, 1))
	g.expect(t, "kube-proxy does not serve", gatedVIP, "", 0)
	g.wait(2 * testBound)
	g.view.ProxyHealthy = true
	g.replan()
	g.expect(t, "it does", gatedVIP, "", 1)
	g.view.Withdrawn = true
	g.replan()
	g.wait(2 * testBound)
	g.view.Withdrawn = false
	g.replan()
	g.expect(t, "after a drain", gatedVIP, "", 1)
	g.wait(testBound)
	g.expect(t, "at the bound", gatedVIP, "yes", 1)
}

func TestAReadyEndpointThatArrivesWhereOthersEndIsWaitedForAsTheWorseWay(t *testing.T) {
	ready, ending := Endpoint{Ready: true, Serving: true}, Endpoint{Serving: true, Terminating: true}
	g := newGated(t)
	g.put(localOffer(ready, local(ready)))
	if q := g.gate.Questions(); len(q) != 1 || !q[0].Ready {
		t.Fatalf("a ready endpoint is not asked for: %v", q)
	}
	g.answer(Present)
	g.put(localOffer(ready, local(ending)))
	g.expect(t, "it ends", gatedVIP, "worse", 0)
	g.put(localOffer(ready, local(ending), local(ready)))
	g.expect(t, "another one has come", gatedVIP, "worse", 1)
	g.put(localOffer(ready, local(ready)))
	g.expect(t, "the old one is gone", gatedVIP, "worse", 1)
	g.answer(Present)
	g.expect(t, "seen", gatedVIP, "yes", 0)

	g.put(localOffer(ready, local(ending)))
	g.put(localOffer(local(ending)))
	g.expect(t, "nobody else is ready", gatedVIP, "yes", 0)
	g.put(localOffer(ready, local(ending)))
	g.put(localOffer(ready, local(ready)))
	g.put(localOffer(ready))
	g.expect(t, "the one that came is gone", gatedVIP, "", 0)
}

func TestAnAnswerToAnotherQuestionCountsForNothing(t *testing.T) {
	ready, ending := Endpoint{Ready: true, Serving: true}, Endpoint{Serving: true, Terminating: true}
	for what, change := range map[string]func(*gated){
		"the endpoints went and came":  func(g *gated) { g.put(localOffer(ready)); g.wait(time.Second); g.put(localOffer(local(ending), ready)) },
		"a ready endpoint has arrived": func(g *gated) { g.put(localOffer(local(ready), ready)) },
		"the port is another one": func(g *gated) {
			o := localOffer(local(ending), ready)
			o.Frontend.Ports = "81/TCP"
			g.put(o)
		},
	} {
		g := newGated(t)
		g.put(localOffer(local(ending), ready))
		old := g.gate.Questions()
		change(g)
		g.gate.Answer([]Answer{{old[0], Present}}, g.now)
		g.replan()
		if got := g.announces(gatedVIP); got != "" {
			t.Errorf("%s: announced %q by an old answer", what, got)
		}
		g.answer(Present)
		if got := g.announces(gatedVIP); got == "" {
			t.Errorf("%s: not announced after its own answer", what)
		}
	}
}

// drawGated is one of a few offers, whose endpoints come and go.
func drawGated(t *rapid.T) Offer {
	o := Offer{Service: web, VIP: rapid.SampledFrom([]netip.Addr{gatedVIP, gatedVIP6}).Draw(t, "vip")}
	o.Service.Name = rapid.SampledFrom([]string{"web", "api"}).Draw(t, "service")
	o.LocalTraffic = rapid.Bool().Draw(t, "local traffic")
	var all []Endpoint
	for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		e := drawEndpoint(t)
		e.Local = rapid.Bool().Draw(t, "local")
		all = append(all, e)
	}
	o.Endpoints = Count(all)
	return o.of(rapid.SampledFrom([]lb.Proxy{lb.KubeProxy, lb.KubeProxy, "other", lb.NoProxy}).Draw(t, "proxy"))
}

// TestTheGateHoldsItsLaws watches a machine whose offers, evidence and state change at
// random: of each offer it knows since when it has endpoints, whether there was evidence
// since then, and for how long it was asked about.
func TestTheGateHoldsItsLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := newGated(t)
		evidence, passed, asked := map[offerKey]bool{}, map[offerKey]bool{}, map[offerKey]time.Time{}
		var questions []Question
		var asks uint64
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				g.offers = g.offers.Edit(nil, []Offer{drawGated(rt)})
			case 2:
				g.now = g.now.Add(time.Duration(rapid.IntRange(1, 12).Draw(rt, "seconds")) * time.Second)
			case 3:
				for _, q := range g.gate.Questions() {
					e := rapid.SampledFrom([]Evidence{Absent, Present, Unknown}).Draw(rt, "evidence")
					g.gate.Answer([]Answer{{q, e}}, g.now)
					evidence[offerKey{q.Service, q.VIP}] = e != Absent
				}
			case 4:
				g.view.ProxyHealthy = rapid.Bool().Draw(rt, "kube-proxy serves")
			}
			g.replan()
			if q, n := g.gate.Questions(), g.gate.Asks(); n == asks && !slices.Equal(q, questions) {
				rt.Fatalf("what is asked became %v without a word, after %v", q, questions)
			} else {
				questions, asks = q, n
			}
			for o := range g.offers.All() {
				key := keyOf(o)
				now, _ := g.passed.Next(o)
				isAsked := func(q Question) bool { return q.Service == o.Service && q.VIP == o.VIP }
				if refusalOf(&o) != "" || o.Frontend.Proxy != lb.KubeProxy {
					delete(evidence, key)
					delete(passed, key)
					delete(asked, key)
					if now != o {
						rt.Fatalf("without endpoints, or rules of kube-proxy's, %v became %v", o, now)
					}
					if slices.ContainsFunc(slices.Concat(g.gate.Questions(), g.gate.Passing()), isAsked) {
						rt.Fatalf("it is asked about %v", o)
					}
					continue
				}
				since := asked[key]
				if due := !since.IsZero() && g.now.Sub(since) >= testBound; !now.RulesPending && !evidence[key] && !passed[key] && !due {
					rt.Fatalf("%v passes without evidence, asked about since %v, and it is %v", o, since, g.now)
				} else if due && now.RulesPending {
					rt.Fatalf("%v is held back beyond the bound", o)
				}
				if passed[key] && now.RulesPending {
					rt.Fatalf("%v has passed and is held back again", o)
				}
				passed[key] = !now.RulesPending
				is := slices.ContainsFunc(g.gate.Questions(), func(q Question) bool { return isAsked(q) && !q.Overdue })
				if would := g.plan.Refusals.Has(pendingRefusal(o.Service, o.VIP)); now.RulesPending && is != would {
					rt.Fatalf("%v: asked about %v, and it would be announced but for the rules %v", o, is, would)
				}
				if !is {
					delete(asked, key)
				} else if asked[key].IsZero() {
					asked[key] = g.now
				}
			}
			if fmt.Sprint(PlanOf(g.view)) != fmt.Sprint(g.plan) {
				rt.Fatalf("planned %v, from nothing %v", g.plan, PlanOf(g.view))
			}
		}
	})
}
