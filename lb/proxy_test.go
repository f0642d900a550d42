package lb

import "testing"

// labelled has labels, each with a value of its own.
func labelled(keys ...string) map[string]string {
	all := map[string]string{"app": "web"}
	for _, k := range keys {
		all[k] = "other"
	}
	return all
}

func TestAServiceIsServedByTheProxyThatItsLabelsName(t *testing.T) {
	for _, tt := range []struct {
		what   string
		labels map[string]string
		want   Proxy
		reason Reason
	}{
		{"no label", nil, KubeProxy, ""},
		{"labels of others", labelled(), KubeProxy, ""},
		{"another proxy", labelled(ServiceProxyLabel), "other", ServedByOtherProxy},
		{"a label without a value counts, too", map[string]string{ServiceProxyLabel: ""}, UnnamedProxy, ServedByOtherProxy},
		{"another proxy, by the name of kube-proxy", map[string]string{ServiceProxyLabel: "kube-proxy"}, "kube-proxy", ServedByOtherProxy},
		{"headless", labelled(HeadlessLabel), NoProxy, LabelledHeadless},
		{"headless, without a value", map[string]string{HeadlessLabel: ""}, NoProxy, LabelledHeadless},
		{"both", labelled(ServiceProxyLabel, HeadlessLabel), "other", ServedByOtherProxy},
	} {
		if got := ProxyOf(tt.labels); got != tt.want || got.Reason() != tt.reason {
			t.Errorf("%s: %q for %q, want %q for %q", tt.what, got, got.Reason(), tt.want, tt.reason)
		}
	}
}

func TestAnEndpointSliceCountsForTheProxiesThatFollowIt(t *testing.T) {
	for _, tt := range []struct {
		what          string
		labels        map[string]string
		kubes, others bool // whether it counts for a Service of kube-proxy, and of another proxy
	}{
		{"no label", labelled(), true, true},
		{"of another proxy", labelled(ServiceProxyLabel), false, true},
		{"of another proxy, without a value", map[string]string{ServiceProxyLabel: ""}, false, true},
		{"of a headless Service", labelled(HeadlessLabel), false, false},
		{"of a headless Service of another proxy", labelled(ServiceProxyLabel, HeadlessLabel), false, false},
	} {
		f := FollowersOf(tt.labels)
		for p, want := range map[Proxy]bool{KubeProxy: tt.kubes, NoProxy: tt.kubes, UnnamedProxy: tt.others, "other": tt.others} {
			if got := f.Include(p); got != want {
				t.Errorf("%s, and a Service of %q: %v", tt.what, p, got)
			}
		}
	}
}
