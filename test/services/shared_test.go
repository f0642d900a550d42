package services

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATestFindsNothingOfTheOneBeforeOnItsServer(t *testing.T) {
	var url, before string
	t.Run("the first", func(t *testing.T) {
		c := newCluster(t)
		url, before = c.URL(), everything(c)
		c.pools(onePool)
		c.start()
		c.service("one")
		c.has("one", "192.0.2.0")
		if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Client.RbacV1().ClusterRoles().Delete(t.Context(), "view", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.Kubectl("label", "namespace", "default", "changed=yes")
		c.Kubectl("create", "namespace", "another")
	})
	t.Run("the next", func(t *testing.T) {
		c := newCluster(t)
		if c.URL() != url {
			t.Fatalf("it has a server of its own, %s, and the one before had %s", c.URL(), url)
		}
		if after := everything(c); after != before {
			t.Errorf("it finds\n%s\nand the one before found\n%s", after, before)
		}
		if n := len(c.Writes()); n != 0 {
			t.Errorf("it finds %d writes of others", n)
		}
		c.pools(onePool)
		c.start()
		c.service("two")
		c.has("two", "192.0.2.0")
	})
}

func TestAServerThatATestStoppedIsNotUsedAgain(t *testing.T) {
	var url string
	t.Run("the first", func(t *testing.T) {
		c := newCluster(t)
		url = c.URL()
		c.StopServer()
		c.StartServer()
	})
	t.Run("the next", func(t *testing.T) {
		if c := newCluster(t); c.URL() == url {
			t.Error("it has the server of the one before")
		}
	})
}

// everything is what a cluster holds, but Events, leases, and what servers write of themselves.
func everything(c *cluster) string {
	c.t.Helper()
	ctx := c.t.Context()
	core, rbac := c.Client.CoreV1(), c.Client.RbacV1()
	namespaces, err1 := core.Namespaces().List(ctx, metav1.ListOptions{})
	services, err2 := core.Services("").List(ctx, metav1.ListOptions{})
	nodes, err3 := core.Nodes().List(ctx, metav1.ListOptions{})
	configMaps, err4 := core.ConfigMaps("").List(ctx, metav1.ListOptions{})
	secrets, err5 := core.Secrets("").List(ctx, metav1.ListOptions{})
	roles, err6 := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	bindings, err7 := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	told := map[string]any{}
	for _, o := range namespaces.Items {
		told["namespace "+o.Name] = o.Labels
	}
	for _, o := range services.Items {
		told["service "+o.Namespace+"/"+o.Name] = o.Spec
	}
	for _, o := range nodes.Items {
		told["node "+o.Name] = o.Spec
	}
	for _, o := range configMaps.Items {
		told["configmap "+o.Namespace+"/"+o.Name] = o.Data
	}
	for _, o := range secrets.Items {
		told["secret "+o.Namespace+"/"+o.Name] = o.Type
	}
	for _, o := range roles.Items {
		told["role "+o.Name] = o.Rules
	}
	for _, o := range bindings.Items {
		told["binding "+o.Name] = []any{o.RoleRef, o.Subjects}
	}
	text, err := json.MarshalIndent(told, "", " ")
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
