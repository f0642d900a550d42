package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"plinth.dev/plinth/test/apiserver"
)

// What a Node says of the taints that Plinth may take away: an older version's word, and
// today's.
const (
	olderRecord = `"annotations":{"plinth.dev/taints":"quarantine=hacked:NoExecute"}`
	countOf     = "plinth.node-restriction.kubernetes.io/taints"
	oneOf       = "taint.plinth.node-restriction.kubernetes.io/0123456789abcdef"
)

// TestStolenCredentialsOfAKubeletTakeNoTaintAway has no NodeRestriction, so that nothing but
// the policy is in the way.
func TestStolenCredentialsOfAKubeletTakeNoTaintAway(t *testing.T) {
	s := apiserver.Start(t, apiserver.Options{Flags: []string{"--disable-admission-plugins=NodeRestriction,ServiceAccount"}})
	kubectl(t, s, render(t, "base"), "apply", "--server-side", "-f", "-")
	node(t, s, "w1")
	if err := patch(t.Context(), s.Client, "w1", "", `{"metadata":{"labels":{"`+countOf+`":"1","`+oneOf+`":"NoSchedule"}}}`); err != nil {
		t.Fatal(err)
	}
	kubelet := kubeletOf(t, s, "w1")
	tries := 0
	s.Eventually(30*time.Second, "the policy is in force", func(ctx context.Context) error {
		tries++ // what is there already is no change
		if err := patch(ctx, kubelet, "w1", "", fmt.Sprintf(`{"metadata":{"annotations":{"plinth.dev/taints":"%d"}}}`, tries)); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("a kubelet is let through"), err)
		}
		return nil
	})
	for name, c := range map[string]struct {
		patch   string
		allowed bool
	}{
		"the older record":         {`{"metadata":{` + olderRecord + `}}`, false},
		"a record more":            {`{"metadata":{"labels":{"taint.plinth.node-restriction.kubernetes.io/ffffffffffffffff":"NoSchedule"}}}`, false},
		"a record less":            {`{"metadata":{"labels":{"` + oneOf + `":null}}}`, false},
		"another record":           {`{"metadata":{"labels":{"` + countOf + `":"2"}}}`, false},
		"no record":                {`{"metadata":{"labels":{"` + countOf + `":null}}}`, false},
		"no labels at all":         {`{"metadata":{"labels":null}}`, false},
		"a label of another":       {`{"metadata":{"labels":{"example.com/mine":"x"}}}`, true},
		"an annotation of another": {`{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"0"}}}`, true},
		"its condition":            {`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`, true},
	} {
		for _, sub := range [][]string{nil, {"status"}} {
			_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), "w1", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{}, sub...)
			if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("%s, by way of nodes/%s: %v", name, strings.Join(sub, ""), err)
			}
		}
	}
	t.Run("a Node that it creates", func(t *testing.T) {
		for name, c := range map[string]struct {
			change  func(*v1.Node)
			allowed bool
		}{
			"w2": {func(n *v1.Node) { n.Annotations = map[string]string{"plinth.dev/taints": "a:NoExecute"} }, false},
			"w3": {func(n *v1.Node) { n.Labels = map[string]string{oneOf: "NoExecute"} }, false},
			"w4": {func(n *v1.Node) { n.Labels = map[string]string{"kubernetes.io/hostname": "w4"} }, true},
			"w5": {func(*v1.Node) {}, true},
		} {
			n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			c.change(n)
			_, err := kubeletOf(t, s, name).CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("%+v: %v", n.ObjectMeta, err)
			}
		}
	})
	t.Run("others", func(t *testing.T) {
		if err := patch(t.Context(), s.Client, "w1", "", `{"metadata":{`+olderRecord+`,"labels":{"`+countOf+`":"2"}}}`); err != nil {
			t.Error(err)
		}
	})
}

// kubeletOf is a client with the rights of a Node's kubelet.
func kubeletOf(t *testing.T, s *apiserver.Server, name string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	return must(t)(kubernetes.NewForConfig(config)).(kubernetes.Interface)
}
