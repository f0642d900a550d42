package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"plinth.dev/plinth/diagnose"
	"plinth.dev/plinth/provider/survey"
)

func TestWhyKnowsWhatItIsAskedAbout(t *testing.T) {
	for text, want := range map[string]string{
		"svc/default/web": "svc/default/web", "service/default/web": "svc/default/web", "203.0.113.7": "vip/203.0.113.7", "vip/203.0.113.7": "vip/203.0.113.7", "vip/2001:DB8::1": "vip/2001:db8::1",
		"vip/::ffff:203.0.113.7": "vip/203.0.113.7", "node/w1": "node/w1", "router/tor-r1": "router/tor-r1",
	} {
		ask, err := subject(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := ask(diagnose.Observed{}, nil).What; got != want {
			t.Errorf("%s: it looks at %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"default/web": "did you mean svc/default/web?", "w1": "did you mean node/w1, router/w1 or svc/default/w1?",
		"web": "want svc/NAMESPACE/NAME, vip/ADDRESS, node/NAME or router/NAME", "svc/web": "want svc/NAMESPACE/NAME", "vip/web": "want vip/ADDRESS", "node/": "or router/NAME", "rack/r1": "or router/NAME",
	} {
		var errs bytes.Buffer
		if code := run([]string{"why", text}, nil, &errs, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, %s", text, code, &errs)
		}
	}
}

func TestAChainAsText(t *testing.T) {
	c := diagnose.Chain{What: "svc/default/web", Links: []diagnose.Link{
		{Step: "Service", Mark: diagnose.LinkOK, Text: "of type LoadBalancer"},
		{Step: "plan", Mark: diagnose.LinkBroken, Reason: "PoolIsDisabled", Text: "no machine would announce 203.0.113.7: its pool is disabled", Help: "plinth explain PoolIsDisabled"},
		{Step: "endpoints", Mark: diagnose.LinkNotAsked},
	}}
	const want = `svc/default/web
  Service    ok         of type LoadBalancer
  plan       broken     PoolIsDisabled: no machine would announce 203.0.113.7: its pool is disabled
                        -> plinth explain PoolIsDisabled
  endpoints  unasked
`
	var text strings.Builder
	if err := writeChainText(&text, c); err != nil || text.String() != want {
		t.Errorf("it prints, with error %v,\n%s\nwant\n%s", err, &text, want)
	}
}

// Where a link breaks that the API server tells of, nobody else is asked.
func TestWhyEndsAtTheAPIServerWhereThatKnows(t *testing.T) {
	ask, err := subject("svc/default/web")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := why(t.Context(), survey.Reader{Client: fake.NewClientset(), Namespace: "kube-system"}, survey.Asker{}, ask)
	if err != nil || chain.Links[0].Mark != diagnose.LinkBroken || len(chain.Ask) > 0 {
		t.Errorf("%v, %+v", err, chain)
	}
	var said exit
	if err := ended(chain.Well(), nil); !errors.As(err, &said) || said.code != exitDegraded {
		t.Errorf("it ends with %v", err)
	}
}
